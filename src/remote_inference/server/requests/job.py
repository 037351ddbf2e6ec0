# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One request in the worker: prepared (parse, check, decode, preprocess), then finished and recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from remote_inference.base.errors import UserError
from remote_inference.base.exchange import Chunk, ChunkStatus, Request, SessionOffer, no_rows
from remote_inference.base.limits import MAX_QUOTE_LENGTH, shorten
from remote_inference.base.policy import Float32Array, Policy, PolicyObservation, find_chunk_problem
from remote_inference.server.policy_watch import PolicyWatch
from remote_inference.server.requests.request_log import RequestRecord
from remote_inference.server.sessions import QueuedRequest, Session

BLANK_REQUEST = Request(
    session_id="",
    session_epoch=0,
    seq_id=0,
    episode_id=0,
    episode_start=False,
    client_mono_ns=0,
    task="",
    inference_delay_steps=0,
)


@dataclass(eq=False)
class Job:
    """A request of a session. Its answer is a chunk, or an ERROR chunk with `error` as its message.

    One thread at a time has it: it prepares the job, predicts with it or finishes it.
    """

    session: Session
    queued: QueuedRequest
    request: Request = BLANK_REQUEST  # until it is parsed
    message: Any = None
    unanswered: RequestRecord | None = None  # of a request that gets no answer, with the reason
    begins_episode: bool = False  # the first of an episode, for which the policy may have to be reset
    asked: bool = False  # whether the policy was asked: it is not for a request that could not be prepared
    blames_policy: bool = False  # whether the author's processors failed on it: its sender may be right
    policy_version: str = ""  # of the weights that its batch is served with
    batch_size: int = 0  # requests served together with this one, itself included
    prepare_ns: int = 0  # time of parsing, decoding and `pre`
    device_ns: int = 0  # its share of the policy's calls: of a call with n requests, one nth
    predict_begin_ns: int = 0  # when the policy was called for its batch
    model_input: Any = None
    chunk_model: Float32Array = field(default_factory=no_rows)
    chunk_robot: Float32Array = field(default_factory=no_rows)
    error: str = ""
    taken_ns: int = 0  # when it was taken from its mailbox
    prepared: bool = False
    is_apart: bool = False  # its preparation is not waited for

    def record(self, chunk: Chunk, ready_ns: int, unsent: str = "") -> RequestRecord:
        """Return the record of the job that `chunk` answers. unsent: why it was not sent; empty: it was."""
        staleness_ms = (ready_ns - self.queued.waiting_since_ns) / 1e6
        slack_ms = self.queued.slack_ms(ready_ns)
        return RequestRecord.of(
            self.session.offer,
            chunk.session_id,
            self.error or (unsent and f"not sent: {unsent}"),
            seq_id=chunk.seq_id,
            episode_id=chunk.episode_id,
            policy_version=self.policy_version,
            batch_size=self.batch_size,
            queue_wait_ms=round(chunk.queue_wait_ms, 3),
            inference_ms=round(chunk.inference_ms, 3),
            staleness_ms=round(staleness_ms, 3),
            slack_ms=None if slack_ms is None else round(slack_ms, 3),
            capture_skew_ms=round(self.request.capture_skew_s * 1e3, 3),
            superseded=chunk.superseded_seqs,
        )

    def drop(self, why: str) -> None:
        """Answer the request with nothing, and set the record that says why."""
        self.unanswered = RequestRecord.of(
            self.session.offer,
            shorten(self.request.session_id, MAX_QUOTE_LENGTH),
            f"not answered: {why}",
            seq_id=self.request.seq_id,
            episode_id=self.request.episode_id,
            superseded=self.queued.superseded,
        )


NoteError = Callable[[str, BaseException], str]  # of what failed, and the error


class Decoder(Protocol):
    """Reads serialized requests, on several threads at once. The wire implements it: no ROS here."""

    def request(self, data: bytes) -> tuple[Request, Any]:
        """Return the request's identity and the parsed message for `observation`."""

    def observation(self, message: Any, offer: SessionOffer) -> PolicyObservation:
        """Return decoded state, images and prefixes. Raises ValueError that says what is malformed."""


def find_foreign(session: Session, named: str) -> str:
    """Return why a request that names another session is not answered.

    Every server of a robot gets its topic, and it would take the answer for the other server's.
    """
    return f"it names session {shorten(named, MAX_QUOTE_LENGTH)!r}, expected {session.session_id!r}"


@dataclass(frozen=True)
class Preparation:
    """Prepares jobs, on any thread; two jobs of one session never at once."""

    decoder: Decoder
    clock_ns: Callable[[], int]
    note_error: NoteError  # reports what the author's code raised, and returns the text for the robot

    def prepare(self, job: Job) -> None:
        """Give a job its `model_input`, its `error`, or the record of a request that gets no answer."""
        begin_ns = self.clock_ns()
        self._open(job)
        if job.unanswered is None:
            self._preprocess(job)
        job.prepare_ns = self.clock_ns() - begin_ns

    def _open(self, job: Job) -> None:
        session, queued = job.session, job.queued
        try:
            job.request, job.message = self.decoder.request(queued.data)
        except Exception as error:  # without its ids it cannot be answered
            session.last_request_ns = queued.arrival_ns  # the topic belongs to this session's robot
            problem = f"unreadable request: {type(error).__name__}: {error}"
            job.unanswered = RequestRecord.of(
                session.offer, session.session_id, problem, superseded=queued.superseded
            )
            return
        named, episode_id = job.request.session_id, job.request.episode_id
        if not session.note_request(named, queued.arrival_ns):
            job.drop(find_foreign(session, named))
        elif episode_id < session.oldest_episode_id:  # the robot awaits no answer any more
            job.drop(f"it is of episode {episode_id}, which reset_session has ended")

    def _preprocess(self, job: Job) -> None:
        session, request = job.session, job.request
        try:
            if request.episode_id != session.episode_id or request.episode_start:
                # No id until both resets succeed: no request may see the old episode's state. A new id shows
                # a new episode, too: its first request may have been lost.
                session.episode_id = None
                session.processors.reset()
                job.begins_episode = True  # the device's thread resets the policy
            try:
                observation = self.decoder.observation(job.message, session.offer)
            except ValueError as error:
                job.error = f"malformed observation: {error}"
                return
            job.model_input = session.processors.pre(observation)
        except BaseException as error:
            job.error = self.note_error("preprocessing failed", error)
            # The words of a PolicyError are for the robot's user: it found something wrong with the request.
            job.blames_policy = not isinstance(error, UserError)


@dataclass
class WorkerCounters:
    """Counts since start-up, published in ServerStatus."""

    requests: int = 0  # served, whether or not they were answered
    errors: int = 0  # requests without a chunk
    superseded: int = 0  # requests replaced by a newer one of the same session before they were served
    undelivered: int = 0  # chunks, request records and captures that could not be handed over
    last_undelivered: str = ""  # what could not be handed over, and why


@dataclass(frozen=True)
class Consumers:
    """Callbacks for the results. One thread at a time calls them; they must not block.

    deliver: sends a chunk to a session's robot. log_request: records each request. capture: stores a request
    that was answered with a chunk: the robot's offer, the serialized request, the chunk and the size of its
    batch. on_policy_error: logs an exception of the policy or the processors; any thread calls it.
    """

    deliver: Callable[[Session, Chunk], None]
    log_request: Callable[[RequestRecord], None]
    capture: Callable[[SessionOffer, bytes, Chunk, int], None] | None = None
    on_policy_error: Callable[[BaseException], None] = lambda _: None


class Finishing:
    """Postprocesses, sends and records batches, one after the other."""

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
        # Malformed observations are not the policy's fault.
        if asked := [job for job in answered if job.asked or job.blames_policy]:
            self._watch.count(answered=not all(job.error for job in asked))
        ready_ns = self._clock_ns()  # the same for all: sending other chunks is not part of inference
        for job in jobs:
            self._finish(job, ready_ns)
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
            job.error = self.note_error("postprocessing failed", error)

    def note_error(self, what: str, error: BaseException) -> str:
        """Report what the author's code raised to watch and log; return it in words. For any thread."""
        text = self._watch.note_error(error)
        self._to.on_policy_error(error)
        return f"{what}: {text}"

    def _finish(self, job: Job, ready_ns: int) -> None:
        """Send a job's chunk, if it gets one, then hand over its record and its capture."""
        session, unanswered = job.session, job.unanswered
        session.account.charge(job.prepare_ns + job.device_ns)
        self.counters.requests += 1
        self.counters.errors += unanswered is not None or bool(job.error)
        self.counters.superseded += job.queued.superseded
        if unanswered is not None:
            self._hand_over("request record", session, lambda: self._to.log_request(unanswered))
            return
        chunk = self._answer(job, ready_ns)
        if not job.error:  # a refusal takes no time: a robot would expect its first chunk as soon
            self.inference_ms.append(chunk.inference_ms)
            self.response_ms.append(chunk.queue_wait_ms + chunk.inference_ms)
        if session.ended:
            unsent = "its session has ended"
        else:
            unsent = self._hand_over("chunk", session, lambda: self._to.deliver(session, chunk))
        record = job.record(chunk, ready_ns, unsent)
        self._hand_over("request record", session, lambda: self._to.log_request(record))
        if (capture := self._to.capture) and record.status == "ok":
            captured = (session.offer, job.queued.data, chunk, job.batch_size)
            self._hand_over("capture", session, lambda: capture(*captured))

    def _hand_over(self, what: str, session: Session, hand_over: Callable[[], None]) -> str:
        """Return why a consumer's function failed, or an empty string: it must not affect other robots."""
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
            queue_wait_ms=max(0, ready_ns - job.queued.arrival_ns - inference_ns) / 1e6,
            inference_ms=inference_ns / 1e6,
            superseded_seqs=job.queued.superseded,
            server_load=self._watch.busy.fraction(ready_ns),
            policy_version=job.policy_version,
        )
