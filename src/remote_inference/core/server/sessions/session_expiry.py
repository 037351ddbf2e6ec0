# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds sessions to end: their robot has vanished, uses another server, or sends no or too large requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from remote_inference.core.server.sessions.session import Session

# In a row. A robot has one request in flight, so a new session may see one of the session before.
FOREIGN_REQUESTS_MAX = 3
# In a row. Taking a message in costs the other robots time by its size, whatever becomes of it.
OVERSIZED_REQUESTS_MAX = 3


class SessionExpiry:
    """Watches sessions; times are the server's monotonic clock [ns]."""

    def __init__(self, grace_s: float, idle_timeout_s: float) -> None:
        """grace_s: how long a robot may be gone from the graph. idle_timeout_s: how long it may be silent."""
        self._grace_ns = int(grace_s * 1e9)
        self._idle_timeout_ns = int(idle_timeout_s * 1e9)
        self._seen_ns: dict[str, int] = {}  # when each session's robot was last present

    def expired(
        self, sessions: Iterable[Session], is_present: Callable[[Session], bool], now_ns: int
    ) -> list[tuple[Session, str]]:
        """Return the sessions to end, each with its reason. A robot counts as present when it opens one."""
        sessions = tuple(sessions)
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
        if session.foreign_requests >= FOREIGN_REQUESTS_MAX:
            return f"its robot has named another session in {session.foreign_requests} requests in a row"
        if session.oversized_requests >= OVERSIZED_REQUESTS_MAX:
            count = session.oversized_requests
            return f"its robot has sent {count} requests in a row that are larger than max_request_bytes"
        idle_ns = now_ns - session.last_asked_ns
        if idle_ns >= self._idle_timeout_ns:
            return f"no request for {idle_ns / 1e9:.0f} s"
        return ""
