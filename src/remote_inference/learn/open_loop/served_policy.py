# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A manifest's policy, asked in this process by the worker of its server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from remote_inference.base.admission import judge
from remote_inference.base.exchange import Chunk, SessionOffer, no_rows
from remote_inference.base.policy import Policy
from remote_inference.learn.open_loop.evaluation import Answer, PolicyIdentity, ReplayError, require_history
from remote_inference.server.admission import terms_of
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.policies import load_policy
from remote_inference.server.policy_watch import PolicyWatch
from remote_inference.server.requests.job import Consumers
from remote_inference.server.requests.request_decoder import RequestDecoder, sample_requests
from remote_inference.server.requests.request_log import RequestRecord
from remote_inference.server.requests.worker import Worker
from remote_inference.server.schedulers import RoundRobin
from remote_inference.server.sessions import Session
from remote_inference.server.warmup import Rehearsal, make_ready


@contextmanager
def serve(manifest: Manifest, source: str, offer: SessionOffer) -> Iterator[ServedPolicy]:
    """Load a manifest's policy, prepare it as its server does, and free it in the end.

    source: name for the manifest. offer: of the recorded robot. Raises ReplayError when the server would
    refuse the robot, PolicyError or DocumentError when the policy cannot be loaded or does not answer.
    """
    with closing(load_policy(manifest.model)) as policy:
        decoder = RequestDecoder(manifest, policy.spec)
        terms = replace(terms_of(manifest), updates_weights=False)  # no trainer changes them here
        verdict = judge(offer, policy.spec, terms)
        if not verdict.accepted:
            raise ReplayError(f"{source} does not fit the bag ({verdict.rejection}): {verdict.reason}")
        require_history(source, policy.spec.observation_steps, offer)
        rehearsal, *others = [
            Rehearsal(policy, decoder, *sample) for sample in sample_requests(policy.spec, manifest)
        ]
        make_ready(policy, rehearsal, manifest, time.monotonic_ns, others)
        yield ServedPolicy(policy, decoder, manifest, source, offer)


class ServedPolicy:
    """Answers each request alone, with the processors of its session."""

    def __init__(
        self, policy: Policy, decoder: RequestDecoder, manifest: Manifest, source: str, offer: SessionOffer
    ) -> None:
        spec = policy.spec
        self.policy = PolicyIdentity(
            source, spec.name, spec.revision, spec.fingerprint, spec.chunk_size, spec.supports_rtc
        )
        self._loaded = policy
        self._offer = offer
        self._session: Session | None = None
        self._chunks: list[Chunk] = []
        self._outcome = ""
        self._worker = Worker(
            policy,
            RoundRobin,
            decoder,
            Consumers(deliver=lambda _, chunk: self._chunks.append(chunk), log_request=self._note),
            clock_ns=time.monotonic_ns,
            watch=PolicyWatch(
                lambda: None,  # a policy that fails is asked on: each failure is reported
                max_consecutive_failures=manifest.max_consecutive_failures,
                inference_timeout_s=manifest.inference_timeout_s,
            ),
        )

    def ask(self, session_id: str, request: bytes) -> Answer:
        """Return the answer to a serialized Observation. A session begins with fresh processors."""
        if self._session is None or self._session.session_id != session_id:
            self._session = Session(session_id, self._offer, self._loaded.make_processors())
        self._chunks.clear()
        self._outcome = "the request was not served"
        self._session.mailbox.put(request, time.monotonic_ns())
        self._worker.step([self._session])
        chunk = self._chunks[0] if self._chunks else None
        if chunk is None or not chunk.robot.size:
            return Answer(no_rows(), no_rows(), self._outcome)
        return Answer(chunk.model, chunk.robot)

    def _note(self, record: RequestRecord) -> None:
        self._outcome = record.outcome
