# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The inference loop: take waiting requests, run the policy, answer each. A failure costs one ERROR chunk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from remote_inference.core.exchange import Chunk, ChunkStatus, Request, SessionOffer, no_rows
from remote_inference.core.limits import shorten
from remote_inference.core.policy import (
    Policy,
    PolicyObservation,
    ServingMode,
    find_chunk_problem,
    predict_all,
)
from remote_inference.core.server.job import Job, foreign, outdated, unreadable
from remote_inference.core.server.mailbox import Letter
from remote_inference.core.server.policy_watch import PolicyWatch
from remote_inference.core.server.request_record import RequestRecord
from remote_inference.core.server.scheduler import Scheduler
from remote_inference.core.server.session import Session


class Decoder(Protocol):
    """Reads serialized requests. The wire implements it, so this module needs no ROS."""

    def request(self, data: bytes) -> tuple[Request, Any]:
        """Return the request's identity and the parsed message for `observation`."""

    def observation(self, message: Any, offer: SessionOffer) -> PolicyObservation:
        """Return decoded state, images and prefixes. Raises ValueError that says what is malformed."""


@dataclass
class WorkerCounters:
    """Counts since start-up, published in ServerStatus."""

    requests: int = 0  # taken, whether or not they were answered
    errors: int = 0  # requests without a chunk
    superseded: int = 0  # requests replaced by a newer one of the same session before they were served
    undelivered: int = 0  # chunks, request records and captures that could not be handed over


class Worker:
    """Serves one policy. `step` belongs to one thread, which owns the device."""

    def __init__(
        self,
        policy: Policy,
        scheduler: Scheduler,
        decoder: Decoder,
        *,
        deliver: Callable[[Session, Chunk], None],
        clock_ns: Callable[[], int],
        log_request: Callable[[RequestRecord], None],
        watch: PolicyWatch,
        capture: Callable[[SessionOffer, bytes, Chunk, int], None] | None = None,
        on_policy_error: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        """deliver: sends a chunk to a session's robot. clock_ns: monotonic. log_request: takes each record.

        watch: learns the outcome of every batch.
        capture: takes each request that was answered with a chunk: the robot's offer, the serialized request,
        the chunk and the size of its batch. It must not block.
        on_policy_error: called with each exception of the policy or the processors, for their author.
        """
        self._policy = policy
        self._scheduler = scheduler
        self._decoder = decoder
        self._deliver = deliver
        self._clock_ns = clock_ns
        self._log_request = log_request
        self._capture = capture
        self._watch = watch
        self._on_policy_error = on_policy_error
        self.busy = watch.busy
        self.counters = WorkerCounters()
        self.last_undelivered = ""  # what could not be handed over, and why
        self.inference_ms: deque[float] = deque(maxlen=100)
        self.draining = False  # true: answers carry DRAINING
        self.wait_ns = 0  # time the scheduler waits to fill a batch; 0: until the next request

    def step(self, sessions: Sequence[Session]) -> bool:
        """Serve one batch; return whether the scheduler selected one."""
        self._watch.check_when_due(self._clock_ns, episode_at_stake=self._has_history(sessions))
        ready = [session for session in sessions if session.mailbox.arrival_ns is not None]
        begin_ns = self._clock_ns()
        selection = self._scheduler.select(ready, len(sessions), begin_ns)
        batch, self.wait_ns = selection.batch, selection.wait_ns
        if not batch:
            return False
        self.busy.begin(begin_ns)
        jobs = [job for session in batch if (job := self._open(session, begin_ns))]
        for job in jobs:
            job.batch_size = len(jobs)
            self._prepare(job)
        asked = [job for job in jobs if not job.error]
        self._predict(asked)
        for job in jobs:
            self._postprocess(job)
        self._count_failures(asked)
        ready_ns = self._clock_ns()  # the same for all: sending other chunks is not part of inference
        for job in jobs:
            self._send(job, ready_ns)
        self.busy.add(begin_ns, self._clock_ns())
        return True

    def _has_history(self, sessions: Sequence[Session]) -> bool:
        """Return whether the policy itself, and not only its processors, remembers a robot's episode."""
        exclusive = self._policy.spec.serving_mode is ServingMode.EXCLUSIVE
        return exclusive and any(session.episode_id is not None for session in sessions)

    def _open(self, session: Session, begin_ns: int) -> Job | None:
        letter = session.mailbox.take()
        if letter is None:  # the session was closed or reset since it was selected
            return None
        try:
            request, message = self._decoder.request(letter.data)
        except Exception as error:
            session.last_request_ns = letter.arrival_ns  # the topic belongs to this session's robot
            self._drop(session, letter, unreadable(session, letter, error))
            return None
        if not session.note_request(request.session_id, letter.arrival_ns):
            self._drop(session, letter, foreign(session, letter, request))
            return None
        if request.episode_id < session.oldest_episode_id:
            self._drop(session, letter, outdated(session, letter, request))
            return None
        return Job(session, letter, request, message, begin_ns)

    def _drop(self, session: Session, letter: Letter, record: RequestRecord) -> None:
        self._count(letter, failed=True)
        self._hand_over("request record", session, lambda: self._log_request(record))

    def _prepare(self, job: Job) -> None:
        """Decode and preprocess a request with its session's processors."""
        session = job.session
        try:
            if job.request.episode_id != session.episode_id or job.request.episode_start:
                self._begin_episode(session, job.request.episode_id)
            observation = self._decoder.observation(job.message, session.offer)
            job.model_input = session.processors.pre(observation)
        except ValueError as error:
            job.error = f"malformed observation: {error}"
        except Exception as error:
            self._on_policy_error(error)
            job.error = f"preprocessing failed: {type(error).__name__}: {error}"

    def _begin_episode(self, session: Session, episode_id: int) -> None:
        """Reset for a new episode. A new id shows it, too: the episode's first request may have been lost."""
        session.episode_id = None  # until both resets succeed: no request may see the old episode's state
        session.processors.reset()
        if self._policy.spec.serving_mode is ServingMode.EXCLUSIVE:
            self._policy.reset()
        session.episode_id = episode_id

    def _predict(self, jobs: list[Job]) -> None:
        """Run the policy on the whole batch. If that fails, run each job alone, so only the culprit fails."""
        if not jobs:
            return
        problem = self._try_to_predict(jobs)
        if problem and len(jobs) == 1:
            jobs[0].error = f"inference failed: {problem}"
        elif problem:
            for job in jobs:
                self._predict([job])

    def _try_to_predict(self, jobs: list[Job]) -> str:
        """Return what went wrong, or "". The exception itself would hold the batch's device memory."""
        try:
            chunks = predict_all(self._policy, [job.model_input for job in jobs])
        except Exception as error:  # a policy may raise anything; the server must survive it
            self._on_policy_error(error)
            return f"{type(error).__name__}: {error}"
        for job, chunk_model in zip(jobs, chunks, strict=True):
            job.chunk_model = chunk_model
        return ""

    def _postprocess(self, job: Job) -> None:
        if job.error:
            return
        try:
            job.chunk_robot = job.session.processors.post(job.chunk_model)
            job.error = find_chunk_problem(self._policy.spec, job.chunk_model, job.chunk_robot)
        except Exception as error:
            self._on_policy_error(error)
            job.error = f"postprocessing failed: {type(error).__name__}: {error}"

    def _count_failures(self, asked: list[Job]) -> None:
        """Tell the watch whether the policy answered; malformed observations are not the policy's fault."""
        if asked:
            self._watch.count(answered=not all(job.error for job in asked))

    def _count(self, letter: Letter, *, failed: bool) -> None:
        self.counters.requests += 1
        self.counters.errors += failed
        self.counters.superseded += letter.superseded

    def _send(self, job: Job, ready_ns: int) -> None:
        self._count(job.letter, failed=bool(job.error))
        chunk = self._answer(job, ready_ns)
        self.inference_ms.append(chunk.inference_ms)
        self._hand_over("chunk", job.session, lambda: self._deliver(job.session, chunk))
        staleness_ms = (ready_ns - job.letter.waiting_since_ns) / 1e6
        self._hand_over(
            "request record", job.session, lambda: self._log_request(job.record(chunk, staleness_ms))
        )
        if (capture := self._capture) and not job.error:
            taken = (job.session.offer, job.letter.data, chunk, job.batch_size)
            self._hand_over("capture", job.session, lambda: capture(*taken))

    def _hand_over(self, what: str, session: Session, hand_over: Callable[[], None]) -> None:
        """Call a consumer's function and count its failure, which must not affect the other robots."""
        try:
            hand_over()
        except Exception as error:
            self.counters.undelivered += 1
            self.last_undelivered = f"{what} of {session.offer.client}: {type(error).__name__}: {error}"

    def _answer(self, job: Job, ready_ns: int) -> Chunk:
        status = ChunkStatus.ERROR if job.error else ChunkStatus.OK
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
            # Negative if the request took the place of another one between selection and taking.
            queue_wait_ms=max(0, job.begin_ns - job.letter.arrival_ns) / 1e6,
            inference_ms=(ready_ns - job.begin_ns) / 1e6,
            superseded_seqs=job.letter.superseded,
            server_load=self.busy.fraction(ready_ns),
            policy_version=self._policy.spec.fingerprint,
        )
