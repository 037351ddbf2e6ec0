# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which waiting sessions are served next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from remote_inference.core.server.session import Session


class Scheduler(Protocol):
    """Chooses the next batch; called by the worker's thread only."""

    def select(self, ready: Sequence[Session]) -> Sequence[Session]:
        """Return the sessions to serve in one call of the policy, out of those with a waiting request."""


class RoundRobin:
    """The session served longest ago comes next, so each waiting one is served once per cycle."""

    def __init__(self) -> None:
        self._turn = 0

    def select(self, ready: Sequence[Session]) -> Sequence[Session]:
        if not ready:
            return ()
        # A newcomer queues at the end: one that opens again and again must not overtake the others.
        for session in ready:
            if not session.served_turn:
                self._queue_up(session)
        chosen = min(ready, key=lambda session: session.served_turn)
        self._queue_up(chosen)
        return (chosen,)

    def _queue_up(self, session: Session) -> None:
        self._turn += 1
        session.served_turn = self._turn


SCHEDULERS: dict[str, type[RoundRobin]] = {"round_robin": RoundRobin}
