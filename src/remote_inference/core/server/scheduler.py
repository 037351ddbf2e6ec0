# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which waiting sessions are served next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from remote_inference.core.server.manifest import Manifest
from remote_inference.core.server.session import Session


@dataclass(frozen=True)
class Selection:
    """The sessions to serve in one call of the policy, or for how long it pays to wait for more."""

    batch: Sequence[Session] = ()
    wait_ns: int = 0


class Scheduler(Protocol):
    """Chooses the next batch; called by the worker's thread only."""

    def select(self, ready: Sequence[Session], open_sessions: int, now_ns: int) -> Selection:
        """Choose out of those with a waiting request. open_sessions: how many could have one."""


class _Turns:
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


class RoundRobin:
    """One request after the other, each waiting session once per cycle."""

    def __init__(self) -> None:
        self._turns = _Turns()

    def select(self, ready: Sequence[Session], open_sessions: int, now_ns: int) -> Selection:  # noqa: ARG002
        return Selection(self._turns.take(ready, 1))


class MicroBatch:
    """Up to `max_batch` requests in one call, the sessions served longest ago first.

    The session that waits longest does so at most `window_ns` for others to join it, however often it asks
    meanwhile, and not at all when nobody is left who could.
    """

    def __init__(self, max_batch: int, window_ns: int) -> None:
        self._turns = _Turns()
        self._max_batch = max_batch
        self._window_ns = window_ns

    def select(self, ready: Sequence[Session], open_sessions: int, now_ns: int) -> Selection:
        if len(ready) < min(self._max_batch, open_sessions):
            begins = [session.mailbox.waiting_since_ns for session in ready]
            oldest_ns = min((begin for begin in begins if begin is not None), default=now_ns)
            wait_ns = oldest_ns + self._window_ns - now_ns
            if not ready or wait_ns > 0:
                return Selection(wait_ns=wait_ns if ready else 0)
        return Selection(self._turns.take(ready, self._max_batch))


def make_scheduler(manifest: Manifest, policy_max_batch: int) -> Scheduler:
    """Return the scheduler that a manifest names. policy_max_batch: the most one call may take."""
    return _SCHEDULERS[manifest.scheduler](manifest, policy_max_batch)


_SCHEDULERS: dict[str, Callable[[Manifest, int], Scheduler]] = {
    "round_robin": lambda _manifest, _limit: RoundRobin(),
    "micro_batch": lambda manifest, limit: MicroBatch(
        min(manifest.max_batch, limit), int(manifest.batch_window_ms * 1e6)
    ),
}
