# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The session of one admitted robot (offer, mailbox, account, processors), the registry, and expiry."""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from remote_inference.base.admission import ServerTerms, judge
from remote_inference.base.exchange import Chunk, SessionKind, SessionOffer, SessionReply
from remote_inference.base.limits import MAX_QUOTE_LENGTH, shorten
from remote_inference.base.policy import PolicySpec, Processors

UNSAID_QUEUE_S = 0.5  # how long the queue lasts of a client that does not say it: about half a chunk


@dataclass(frozen=True)
class QueuedRequest:
    """A serialized request and its arrival on the server's monotonic clock [ns]."""

    data: bytes
    arrival_ns: int
    superseded: int  # requests replaced since the last one served
    waiting_since_ns: int  # arrival of the first replaced request, or of this one
    queue_s: float = -1.0  # how long the robot's queue lasts from the arrival on; negative: not said

    @property
    def due_ns(self) -> int:
        """When the robot's queue ends."""
        queue_s = self.queue_s if self.queue_s >= 0.0 else UNSAID_QUEUE_S
        return self.arrival_ns + round(queue_s * 1e9)

    def slack_ms(self, now_ns: int) -> float | None:
        """Return how long the queue still lasts [ms], negative once it has ended; None: nobody said it."""
        return (self.due_ns - now_ns) / 1e6 if self.queue_s >= 0.0 else None


class Mailbox:
    """Holds the newest request, and counts those it replaces; undecoded, so these cost nothing."""

    def __init__(self) -> None:
        self.letter: QueuedRequest | None = None  # the request that waits
        self._lock = threading.Lock()

    def put(self, data: bytes, arrival_ns: int, queue_s: float = -1.0) -> None:
        with self._lock:
            superseded, waiting_since_ns = 0, arrival_ns
            if self.letter is not None:
                superseded, waiting_since_ns = self.letter.superseded + 1, self.letter.waiting_since_ns
            self.letter = QueuedRequest(data, arrival_ns, superseded, waiting_since_ns, queue_s)

    def take(self) -> QueuedRequest | None:
        with self._lock:
            queued, self.letter = self.letter, None
            return queued


class Account:
    """A session's cost as virtual time [ns]: decoding and device time, plus what a pause forfeits.

    One thread chooses sessions by it, and another may charge it meanwhile.
    """

    def __init__(self) -> None:
        self.virtual_ns = 0
        self._lock = threading.Lock()
        self.last_chosen = 0  # number of the choice, over all sessions; 0: it has never waited

    def charge(self, cost_ns: int) -> None:
        """Add what one request took, when it has been served."""
        with self._lock:
            self.virtual_ns += max(0, cost_ns)

    def raise_to(self, virtual_ns: int) -> None:
        """Forfeit what is left below `virtual_ns`."""
        with self._lock:
            self.virtual_ns = max(self.virtual_ns, virtual_ns)


class Link(Protocol):
    """The connection between a session and its robot, over ROS or a gateway's wire."""

    paused: bool  # the robot has said that it is paused
    kept: frozenset[str]  # sessions that the robot keeps while it uses others

    def send(self, chunk: Chunk) -> None:
        """Send a chunk without waiting; one thread at a time calls it. A closed link drops it."""

    def is_present(self) -> bool:
        """Return whether the robot is still at the other end."""

    def close(self, reason: str) -> None:
        """Close, with the reason where the wire can carry one; the executor's thread calls it."""


@dataclass(eq=False)
class Session:
    """One robot's admitted connection."""

    session_id: str
    offer: SessionOffer
    processors: Processors
    token: str = field(default_factory=secrets.token_hex, repr=False)  # the owner's secret
    opened_ns: int = 0  # the server's monotonic clock
    mailbox: Mailbox = field(default_factory=Mailbox)
    episode_id: int | None = None  # the episode for which processors and policy were reset
    oldest_episode_id: int = 0  # requests of earlier episodes are not served
    last_request_ns: int = 0  # arrival of the last request that named this session
    foreign_requests: int = 0  # requests since then that named another session
    oversized_requests: int = 0  # of the last requests in a row, those beyond max_request_bytes
    in_service: bool = False  # its request has been taken, and its answer is not out yet
    ended: bool = False  # it is not in the registry any more
    preparing_since_ns: int | None = None  # its request is being prepared since then
    prepares_apart: bool = False  # its requests take long to prepare, and get a thread of their own
    alone_until_ns: int = 0  # until then its requests share no call of the policy with others'
    account: Account = field(default_factory=Account)  # what serving it has cost
    link: Link | None = None  # none in rehearsals

    @property
    def yields(self) -> bool:
        """Whether it waits while robots wait, and makes room for one."""
        return self.offer.kind is not SessionKind.ROBOT

    @property
    def last_asked_ns(self) -> int:
        """When the robot opened the session or last asked for a chunk [ns]; a waiting request counts."""
        arrival_ns = letter.arrival_ns if (letter := self.mailbox.letter) else 0
        return max(self.opened_ns, self.last_request_ns, arrival_ns)

    @property
    def is_kept(self) -> bool:
        """Whether the robot says that it keeps the session while it uses another."""
        return self.link is not None and self.session_id in self.link.kept

    def note_kept(self, now_ns: int) -> None:
        """Count time and requests for other sessions anew from when the robot uses this one again."""
        self.last_request_ns, self.foreign_requests, self.oversized_requests = now_ns, 0, 0

    def is_present(self) -> bool:
        """Return whether the robot is still at the other end of its link."""
        return self.link is not None and self.link.is_present()

    def end_episodes_before(self, episode_id: int) -> None:
        """Serve requests of `episode_id` and later ones only: one of an earlier episode may still wait.

        The mailbox is left alone: the first request of the new episode may have come before the reset.
        """
        self.oldest_episode_id = max(self.oldest_episode_id, episode_id)

    def note_size(self, size_bytes: int, most_bytes: int) -> None:
        """Count a request that has arrived, if it is too large."""
        self.oversized_requests = self.oversized_requests + 1 if size_bytes > most_bytes else 0

    def note_request(self, session_id: str, arrival_ns: int) -> bool:
        """Count a request of the robot by the session that it names; return whether it is this one."""
        if session_id != self.session_id:
            self.foreign_requests += 1
            return False
        self.last_request_ns, self.foreign_requests = arrival_ns, 0
        return True


class SessionRegistry:
    """Open sessions by id. Any thread may open and close sessions; the worker's thread reads them.

    Whoever opens one holds `admission` from judging the offer until the session is added: no two take the
    last place.
    """

    def __init__(self, instance_id: str) -> None:
        self.admission = threading.Lock()
        self._instance_id = instance_id
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    def all(self) -> tuple[Session, ...]:
        with self._lock:
            return tuple(self._sessions.values())

    def get(self, session_id: str) -> Session | None:
        return self._sessions.get(session_id)

    def find_claim_problem(self, session_id: str, token: str) -> str:
        """Return why a caller may not end or reset a session; empty when the token is the session's own."""
        session = self.get(session_id)
        if session is None:
            return f"session {shorten(session_id, MAX_QUOTE_LENGTH)!r} is not open"
        if hmac.compare_digest(session.token.encode(), token.encode(errors="replace")):
            return ""
        found = f"one that is not of session {session_id!r}" if token else "none"
        expected = f"the one that open_session gave for session {session_id!r}"
        return f"session_token: found {found}, expected {expected}"

    def of_robot(self, robot_namespace: str) -> Session | None:
        """Return a robot's session, or None."""
        return next((s for s in self.all() if s.offer.robot_namespace == robot_namespace), None)

    def newest_yielding(self) -> Session | None:
        """Return the session that makes room for a robot, or None."""
        yielding = [session for session in self.all() if session.yields]
        return max(yielding, key=lambda session: session.opened_ns, default=None)

    def add(self, session: Session) -> None:
        with self._lock:
            self._sessions[session.session_id] = session

    def remove(self, session_id: str) -> Session | None:
        with self._lock:
            session = self._sessions.pop(session_id, None)
        if session is not None:
            session.ended = True
        return session

    def end(self, session: Session, reason: str) -> bool:
        """Remove a session and close its link; return whether it was open."""
        if self.remove(session.session_id) is None:
            return False
        if session.link is not None:
            session.link.close(reason)
        return True

    def reply(self, offer: SessionOffer, spec: PolicySpec, terms: ServerTerms) -> SessionReply:
        """Return the reply to an offer; an accepting reply carries no session_id and token yet."""
        verdict = judge(offer, spec, terms)
        return SessionReply(
            accepted=verdict.accepted,
            rejection=verdict.rejection,
            message=shorten(verdict.reason),
            warnings=verdict.warnings,
            server_instance_id=self._instance_id,
            action_names=spec.action_names,
            chunk_size=spec.chunk_size,
            observation_steps=spec.observation_steps,
            trained_fps=spec.trained_fps,
            rtc=spec.supports_rtc and offer.wants_rtc,
            continuation=spec.continuation.value,
            serving_mode=spec.serving_mode.value,
            policy_name=spec.name,
            policy_revision=spec.revision,
            policy_fingerprint=spec.fingerprint,
            load=terms.load,
            active_sessions=terms.active_sessions,
            max_sessions=terms.capacity(spec),
        )


# In a row. A robot has one request in flight, so a new session may see one of the session before.
FOREIGN_REQUESTS_MAX = 3
OWN_REQUEST_NS = (
    3_000_000_000  # after one of its own, a session is not ended by what others send on its topic
)
HUNG_NS = 10_000_000_000  # of a preparation: its thread is lost, and so is the session
# In a row. Receiving a message costs the other robots time by its size.
OVERSIZED_REQUESTS_MAX = 3


class SessionExpiry:
    """Finds sessions to end: their robot is gone, silent, uses another server, or sends too large requests.

    Times are the server's monotonic clock [ns].
    """

    def __init__(self, grace_s: float, idle_timeout_s: float) -> None:
        """grace_s: how long a robot may be gone from the graph. idle_timeout_s: how long it may be silent."""
        self._grace_ns = int(grace_s * 1e9)
        self._idle_timeout_ns = int(idle_timeout_s * 1e9)
        self._seen_ns: dict[str, int] = {}  # when each session's robot was last present
        self._foreign_ns: dict[
            str, int
        ] = {}  # since when a robot may use another: time to hear that it keeps this

    def expired(
        self, sessions: Iterable[Session], is_present: Callable[[Session], bool], now_ns: int
    ) -> list[tuple[Session, str]]:
        """Return the sessions to end, each with its reason. A robot counts as present when it opens one."""
        sessions = tuple(sessions)
        for session in sessions:
            if session.is_kept:
                session.note_kept(now_ns)
        self._foreign_ns = {
            one.session_id: self._foreign_ns.get(one.session_id, now_ns)
            for one in sessions
            if one.foreign_requests
        }
        self._seen_ns = {
            session.session_id: now_ns
            if is_present(session)
            else self._seen_ns.get(session.session_id, now_ns)
            for session in sessions
        }
        return [(session, reason) for session in sessions if (reason := self._reason(session, now_ns))]

    def _reason(self, session: Session, now_ns: int) -> str:
        gone_ns = now_ns - self._seen_ns[session.session_id]
        if gone_ns >= self._grace_ns:
            return f"its robot has been gone for {gone_ns / 1e9:.0f} s"
        asked_ns = now_ns - session.last_asked_ns
        foreign_ns = now_ns - self._foreign_ns.get(session.session_id, now_ns)
        if session.foreign_requests >= FOREIGN_REQUESTS_MAX and min(asked_ns, foreign_ns) >= OWN_REQUEST_NS:
            return f"its robot has named another session in {session.foreign_requests} requests in a row"
        if session.oversized_requests >= OVERSIZED_REQUESTS_MAX:
            count = session.oversized_requests
            return f"its robot has sent {count} requests in a row that are larger than max_request_bytes"
        if (since_ns := session.preparing_since_ns) is not None and now_ns - since_ns >= HUNG_NS:
            return f"its request has been prepared for {(now_ns - since_ns) / 1e9:.0f} s without end"
        if asked_ns >= self._idle_timeout_ns:
            return f"no request for {asked_ns / 1e9:.0f} s"
        return ""
