# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The session of one admitted robot (offer, mailbox, processors), and the registry of all sessions."""

from __future__ import annotations

import hmac
import secrets
import threading
from dataclasses import dataclass, field
from typing import Any

from remote_inference.core.admission import ServerTerms, judge
from remote_inference.core.exchange import SessionOffer, SessionReply
from remote_inference.core.limits import MAX_QUOTE_LENGTH, shorten
from remote_inference.core.policy import PolicySpec, Processors
from remote_inference.core.server.mailbox import Mailbox


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
    served_turn: int = 0  # place in the scheduler's queue, 0 before the first request
    entities: Any = None  # the node's publisher and subscription

    @property
    def last_asked_ns(self) -> int:
        """When the robot opened the session or last asked for a chunk [ns]; a waiting request counts."""
        return max(self.opened_ns, self.last_request_ns, self.mailbox.arrival_ns or 0)

    def end_episodes_before(self, episode_id: int) -> None:
        """Serve requests of `episode_id` and later ones only: one of an earlier episode may still wait.

        The mailbox is left alone: the first request of the new episode may have come before the reset.
        """
        self.oldest_episode_id = max(self.oldest_episode_id, episode_id)

    def note_request(self, session_id: str, arrival_ns: int) -> bool:
        """Note the session that a request of the robot names; return whether it is this one."""
        if session_id != self.session_id:
            self.foreign_requests += 1
            return False
        self.last_request_ns, self.foreign_requests = arrival_ns, 0
        return True


class SessionRegistry:
    """Open sessions by id. One thread opens and closes sessions; the worker's thread reads them."""

    def __init__(self, instance_id: str) -> None:
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

    def add(self, session: Session) -> None:
        with self._lock:
            self._sessions[session.session_id] = session

    def remove(self, session_id: str) -> Session | None:
        with self._lock:
            return self._sessions.pop(session_id, None)

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
            serving_mode=spec.serving_mode.value,
            policy_name=spec.name,
            policy_revision=spec.revision,
            policy_fingerprint=spec.fingerprint,
            load=terms.load,
            active_sessions=terms.active_sessions,
            max_sessions=terms.capacity(spec),
        )
