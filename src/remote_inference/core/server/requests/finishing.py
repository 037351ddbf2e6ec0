# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The last third of a request: postprocess, answer the robot, write records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from remote_inference.core.exchange import Chunk, ChunkStatus, SessionOffer, no_rows
from remote_inference.core.limits import shorten
from remote_inference.core.policy import Policy, find_chunk_problem
from remote_inference.core.server.policy_watch import PolicyWatch
from remote_inference.core.server.requests.job import Job
from remote_inference.core.server.requests.request_record import RequestRecord
from remote_inference.core.server.sessions.mailbox import Letter
from remote_inference.core.server.sessions.session import Session


@dataclass
class WorkerCounters:
    """Counts since start-up, published in ServerStatus."""

    requests: int = 0  # taken, whether or not they were answered
    errors: int = 0  # requests without a chunk
    superseded: int = 0  # requests replaced by a newer one of the same session before they were served
    undelivered: int = 0  # chunks, request records and captures that could not be handed over
    last_undelivered: str = ""  # what could not be handed over, and why


@dataclass(frozen=True)
class Consumers:
    """Who gets the results. They are called by one thread at a time and must not block.

    deliver: sends a chunk to a session's robot. log_request: takes each record. capture: takes each request
    that was answered with a chunk: the robot's offer, the serialized request, the chunk and the size of its
    batch. on_policy_error: called with each exception of the policy or the processors, for their author, by
    any thread.
    """

    deliver: Callable[[Session, Chunk], None]
    log_request: Callable[[RequestRecord], None]
    capture: Callable[[SessionOffer, bytes, Chunk, int], None] | None = None
    on_policy_error: Callable[[BaseException], None] = lambda _: None


class Finishing:
    """Finishes batches, one after the other."""

    def __init__(
        self, policy: Policy, watch: PolicyWatch, consumers: Consumers, clock_ns: Callable[[], int]
    ) -> None:
        self._policy = policy
        self._watch = watch
        self._to = consumers
        self._clock_ns = clock_ns
        self.counters = WorkerCounters()
        self.inference_ms: deque[float] = deque(maxlen=100)
        self.response_ms: deque[float] = deque(maxlen=100)  # with the wait before
        self.draining = False  # true: answers carry DRAINING

    def finish(self, jobs: Sequence[Job]) -> None:
        """Answer the jobs of a batch, and let their sessions ask again."""
        begin_ns = self._clock_ns()
        self._watch.finishing.begin(begin_ns)
        answered = [job for job in jobs if job.unanswered is None]
        for job in answered:
            self._postprocess(job)
        self._count_failures([job for job in answered if job.asked or job.blames_policy])
        ready_ns = self._clock_ns()  # the same for all: sending other chunks is not part of inference
        for job in jobs:
            if job.unanswered is not None:
                self._drop(job, job.unanswered)
            else:
                self._send(job, ready_ns)
            job.session.in_service = False
        self._watch.finishing.add(begin_ns, self._clock_ns())

    def _postprocess(self, job: Job) -> None:
        if job.error:
            return
        try:
            # A copy: what turns a chunk into robot space in place must not change the one in model space.
            job.chunk_robot = job.session.processors.post(np.array(job.chunk_model))
            job.error = find_chunk_problem(self._policy.spec, job.chunk_model, job.chunk_robot)
        except BaseException as error:
            job.error = self.take_error("postprocessing failed", error)

    def take_error(self, what: str, error: BaseException) -> str:
        """Tell the watch and the author what the author's code raised; return it in words. For any thread."""
        text = self._watch.hear(error)
        self._to.on_policy_error(error)
        return f"{what}: {text}"

    def _count_failures(self, asked: Sequence[Job]) -> None:
        """Tell the watch whether the policy answered; malformed observations are not the policy's fault."""
        if asked:
            self._watch.count(answered=not all(job.error for job in asked))

    def _drop(self, job: Job, record: RequestRecord) -> None:
        job.session.account.charge(job.prepare_ns + job.device_ns)
        self._count(job.letter, failed=True)
        self._hand_over("request record", job.session, lambda: self._to.log_request(record))

    def _send(self, job: Job, ready_ns: int) -> None:
        job.session.account.charge(job.prepare_ns + job.device_ns)
        self._count(job.letter, failed=bool(job.error))
        chunk = self._answer(job, ready_ns)
        if not job.error:  # to refuse a request takes no time: a robot would expect its first chunk as soon
            self.inference_ms.append(chunk.inference_ms)
            self.response_ms.append(chunk.queue_wait_ms + chunk.inference_ms)
        if job.session.ended:
            unsent = "its session has ended"
        else:
            unsent = self._hand_over("chunk", job.session, lambda: self._to.deliver(job.session, chunk))
        record = job.record(chunk, (ready_ns - job.letter.waiting_since_ns) / 1e6, unsent)
        self._hand_over("request record", job.session, lambda: self._to.log_request(record))
        if (capture := self._to.capture) and record.status == "ok":
            taken = (job.session.offer, job.letter.data, chunk, job.batch_size)
            self._hand_over("capture", job.session, lambda: capture(*taken))

    def _count(self, letter: Letter, *, failed: bool) -> None:
        self.counters.requests += 1
        self.counters.errors += failed
        self.counters.superseded += letter.superseded

    def _hand_over(self, what: str, session: Session, hand_over: Callable[[], None]) -> str:
        """Call a consumer's function and count its failure, which must not affect the other robots.

        Return what failed, or an empty string.
        """
        try:
            hand_over()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            self.counters.undelivered += 1
            self.counters.last_undelivered = f"{what} of {session.offer.client}: {problem}"
            return problem
        return ""

    def _answer(self, job: Job, ready_ns: int) -> Chunk:
        status = ChunkStatus.ERROR if job.error else ChunkStatus.OK
        # Its own preparation, then its batch in the policy and here. All other time it waited, for its turn,
        # for the others of its batch or for the device.
        inference_ns = job.prepare_ns + ready_ns - job.predict_begin_ns
        return Chunk(
            session_id=job.request.session_id,
            session_epoch=job.request.session_epoch,
            seq_id=job.request.seq_id,
            episode_id=job.request.episode_id,
            client_mono_ns=job.request.client_mono_ns,
            status=ChunkStatus.DRAINING if self.draining or self._watch.failing else status,
            message=shorten(job.error) or ("server is draining" if self.draining else ""),
            model=no_rows() if job.error else job.chunk_model,
            robot=no_rows() if job.error else job.chunk_robot,
            queue_wait_ms=max(0, ready_ns - job.letter.arrival_ns - inference_ns) / 1e6,
            inference_ms=inference_ns / 1e6,
            superseded_seqs=job.letter.superseded,
            server_load=self._watch.busy.fraction(ready_ns),
            policy_version=job.policy_version,
        )
