# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One request in the worker, and the record of its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from remote_inference.core.exchange import Chunk, Request, no_rows
from remote_inference.core.limits import MAX_QUOTE_LENGTH, shorten
from remote_inference.core.policy import Float32Array
from remote_inference.core.server.requests.request_record import RequestRecord
from remote_inference.core.server.sessions.mailbox import Letter
from remote_inference.core.server.sessions.session import Session

_UNREAD = Request(
    session_id="",
    session_epoch=0,
    seq_id=0,
    episode_id=0,
    episode_start=False,
    client_mono_ns=0,
    task="",
    inference_delay_steps=0,
)


@dataclass
class Job:
    """A request of a session. Its answer is a chunk, or an ERROR chunk with `error` as its message.

    One thread at a time has it: it prepares the job, predicts with it or finishes it.
    """

    session: Session
    letter: Letter
    request: Request = _UNREAD  # until it is parsed
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

    def record(self, chunk: Chunk, staleness_ms: float, unsent: str = "") -> RequestRecord:
        """Return the record of the job that `chunk` answers. unsent: why it was not sent; empty: it was."""
        problem = self.error or (unsent and f"not sent: {unsent}")
        return RequestRecord(
            session_id=chunk.session_id,
            robot=self.session.offer.robot_namespace,
            client=self.session.offer.client,
            seq_id=chunk.seq_id,
            episode_id=chunk.episode_id,
            policy_version=self.policy_version,
            batch_size=self.batch_size,
            queue_wait_ms=round(chunk.queue_wait_ms, 3),
            inference_ms=round(chunk.inference_ms, 3),
            staleness_ms=round(staleness_ms, 3),
            superseded=chunk.superseded_seqs,
            status="error" if problem else "ok",
            outcome=shorten(problem) or "ok",
            tags=self.session.offer.tags,
        )


def ended(job: Job) -> RequestRecord:
    """Return the record of a request whose session has ended since the request was taken."""
    return _unanswered(job.session, job.letter, job.request, "its session has ended")


def unreadable(session: Session, letter: Letter, error: Exception) -> RequestRecord:
    """Return the record of a request that cannot be parsed. Without its ids it cannot be answered."""
    return RequestRecord(
        session_id=session.session_id,
        robot=session.offer.robot_namespace,
        client=session.offer.client,
        superseded=letter.superseded,
        status="error",
        outcome=shorten(f"unreadable request: {type(error).__name__}: {error}"),
        tags=session.offer.tags,
    )


def outdated(session: Session, letter: Letter, request: Request) -> RequestRecord:
    """Return the record of a request of an episode that the robot has ended; it awaits no answer any more."""
    return _unanswered(
        session, letter, request, f"it is of episode {request.episode_id}, which reset_session has ended"
    )


def foreign(session: Session, letter: Letter, request: Request) -> RequestRecord:
    """Return the record of a request for another server; every server of a robot hears the robot's topic.

    The request must not be answered: the robot would take the answer for that of the other server.
    """
    found = shorten(request.session_id, MAX_QUOTE_LENGTH)
    return _unanswered(
        session, letter, request, f"it names session {found!r}, expected {session.session_id!r}"
    )


def _unanswered(session: Session, letter: Letter, request: Request, why: str) -> RequestRecord:
    return RequestRecord(
        session_id=shorten(request.session_id, MAX_QUOTE_LENGTH),
        robot=session.offer.robot_namespace,
        client=session.offer.client,
        seq_id=request.seq_id,
        episode_id=request.episode_id,
        superseded=letter.superseded,
        status="error",
        outcome=f"not answered: {why}",
        tags=session.offer.tags,
    )
