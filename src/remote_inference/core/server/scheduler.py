# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a scheduler is: it chooses which waiting sessions are served next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from remote_inference.core.server.session import Session


@dataclass(frozen=True)
class Selection:
    """The sessions to serve in one call of the policy, or how long to wait for more of them."""

    batch: Sequence[Session] = ()
    wait_ns: int = 0


class Scheduler(Protocol):
    """Chooses the next batch; called by the worker's thread only."""

    batches: ClassVar[bool]  # whether a selection may hold several sessions

    def __init__(self, max_batch: int, window_ns: int) -> None:
        """max_batch: the most sessions of a selection. window_ns: the longest wait for others to join."""

    def select(self, ready: Sequence[Session], open_sessions: int, now_ns: int) -> Selection:
        """Choose from `ready`, the sessions with a waiting request. open_sessions: the number of all."""


class Turns:
    """The session served longest ago comes first, so each waiting one is served once per cycle."""

    def __init__(self) -> None:
        self._turn = 0

    def take(self, ready: Sequence[Session], count: int) -> list[Session]:
        # A newcomer queues at the end: one that opens again and again must not overtake the others.
        for session in ready:
            if not session.served_turn:
                self._queue_up(session)
        chosen = sorted(ready, key=lambda session: session.served_turn)[:count]
        for session in chosen:
            self._queue_up(session)
        return chosen

    def _queue_up(self, session: Session) -> None:
        self._turn += 1
        session.served_turn = self._turn
