# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a scheduler is: it chooses which waiting sessions are served next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from remote_inference.core.documents.document import Document
from remote_inference.core.server.sessions.session import Session


@dataclass(frozen=True)
class Selection:
    """The sessions to serve in one call of the policy, or how long to wait for more of them."""

    batch: Sequence[Session] = ()
    wait_ns: int = 0


class SchedulerOptions(Document):
    """What a scheduler asks a manifest for: keys of the manifest, declared beside the scheduler."""

    @property
    def most(self) -> int:
        """The most requests that one call of the policy may get."""
        return 1


class Scheduler(Protocol):
    """Chooses the next batch; called by one thread at a time."""

    batches: ClassVar[bool]  # whether a selection may hold several sessions
    options: ClassVar[type[SchedulerOptions]]

    @classmethod
    def make(cls, options: Any, most: int) -> Scheduler:
        """Return one. options: of its own model. most: sessions of a selection, as the policy allows."""

    def select(self, ready: Sequence[Session], joinable: int, now_ns: int, chosen: int = 0) -> Selection:
        """Choose from `ready`, the sessions with a waiting request.

        joinable: how many sessions the batch may wait for; 0 while the device is busy. chosen: the number of
        sessions that are in the batch already.
        """


class Turns:
    """The waiting session that has cost least comes first; of equal ones, the session served longest ago.

    Costs are measured times [ns], charged when a request has been served. The rule is start-time fair
    queueing (Goyal, Vin and Cheng, 1996) with equal weights, and several served at a time as in SFQ(D) (Jin,
    Chase and Kaur, 2004): while two sessions wait for single turns, the times that they are given differ by
    no more than the cost of one request of each, whatever their requests cost.

    A session that is new, or comes back, begins with the least cost of those that wait: nobody saves up
    time, and a robot that opens again and again overtakes nobody.
    """

    def __init__(self) -> None:
        self._turn = 0
        self._virtual_ns = 0  # the highest cost at which a session was chosen the last time

    def take(self, ready: Sequence[Session], count: int) -> list[Session]:
        """Return `count` sessions, or all when fewer wait, in the order of their turns."""
        self._admit(ready)
        chosen = sorted(ready, key=lambda session: (session.account.virtual_ns, session.account.turn))[:count]
        if chosen:
            self._virtual_ns = chosen[-1].account.virtual_ns
        for session in chosen:
            self._queue_up(session)
        return chosen

    def _admit(self, ready: Sequence[Session]) -> None:
        """Let those that are new, come back or were served beside a dearer one begin where the others are."""
        costs = [session.account.virtual_ns for session in ready if session.account.turn]
        contending = [cost_ns for cost_ns in costs if cost_ns >= self._virtual_ns]
        least_ns = min(contending, default=self._virtual_ns)
        for session in ready:
            session.account.raise_to(least_ns)
            if not session.account.turn:
                self._queue_up(session)

    def _queue_up(self, session: Session) -> None:
        self._turn += 1
        session.account.turn = self._turn
