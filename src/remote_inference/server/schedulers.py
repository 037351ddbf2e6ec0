# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Schedulers: which waiting sessions the next call of the policy serves.

Those that a manifest may name have a line each at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import Field

from remote_inference.base.documents.document import Document
from remote_inference.base.documents.registry import Registry
from remote_inference.server.sessions import Session


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


class FairQueue:
    """The waiting session that has cost least comes first; of equal ones, the session served longest ago.

    Costs are measured times [ns], charged when a request has been served. The rule is start-time fair
    queueing (Goyal, Vin and Cheng, 1996) with equal weights, and several served at a time as in SFQ(D) (Jin,
    Chase and Kaur, 2004): while two sessions wait to be served singly, the times that they get differ by
    no more than the cost of one request of each, whatever their requests cost.

    A session that is new, or comes back, begins with the least cost of those that wait: nobody saves up
    time, and a robot that opens again and again overtakes nobody.
    """

    def __init__(self) -> None:
        self._count = 0
        self._virtual_ns = 0  # the highest cost at which a session was chosen the last time

    def take(self, ready: Sequence[Session], count: int) -> list[Session]:
        """Return `count` sessions, or all when fewer wait, in the order of their turns."""
        self._admit(ready)
        by_cost = sorted(ready, key=lambda one: (one.account.virtual_ns, one.account.last_chosen))
        chosen = by_cost[:count]
        if chosen:
            self._virtual_ns = chosen[-1].account.virtual_ns
        for session in chosen:
            self._queue_up(session)
        return chosen

    def _admit(self, ready: Sequence[Session]) -> None:
        """Raise the cost of sessions that are new, or come back, to the least cost of those that wait."""
        costs = [session.account.virtual_ns for session in ready if session.account.last_chosen]
        contending = [cost_ns for cost_ns in costs if cost_ns >= self._virtual_ns]
        least_ns = min(contending, default=self._virtual_ns)
        for session in ready:
            session.account.raise_to(least_ns)
            if not session.account.last_chosen:
                self._queue_up(session)

    def _queue_up(self, session: Session) -> None:
        self._count += 1
        session.account.last_chosen = self._count


class MicroBatchOptions(SchedulerOptions):
    """How many requests, and how long one waits for others."""

    max_batch: Annotated[int, Field(ge=1, le=1_024, description="micro_batch: most requests in one call")] = 8
    batch_window_ms: Annotated[
        float, Field(ge=0.0, le=1_000.0, description="micro_batch: longest wait for more requests [ms]")
    ] = 5.0

    @property
    def most(self) -> int:
        return self.max_batch


class MicroBatch:
    """Up to `max_batch` requests in one call, of the waiting sessions that have cost least.

    The session that has waited longest waits at most `window_ns` for others to join it, however often it
    asks meanwhile. It does not wait when no other session could join.
    """

    batches: ClassVar[bool] = True
    options: ClassVar[type[SchedulerOptions]] = MicroBatchOptions

    def __init__(self, max_batch: int = 1, window_ns: int = 0) -> None:
        self._queue = FairQueue()
        self._max_batch = max_batch
        self._window_ns = window_ns

    @classmethod
    def make(cls, options: MicroBatchOptions, most: int) -> MicroBatch:
        return cls(most, int(options.batch_window_ms * 1e6))

    def select(self, ready: Sequence[Session], joinable: int, now_ns: int, chosen: int = 0) -> Selection:
        if len(ready) < min(self._max_batch, joinable):
            letters = [session.mailbox.letter for session in ready]
            oldest_ns = min((one.waiting_since_ns for one in letters if one is not None), default=now_ns)
            wait_ns = oldest_ns + self._window_ns - now_ns
            if not ready or wait_ns > 0:
                return Selection(wait_ns=wait_ns if ready else 0)
        return Selection(self._queue.take(ready, self._max_batch - chosen))


class RoundRobin(MicroBatch):
    """One request after the other, of the waiting session that has cost least."""

    batches: ClassVar[bool] = False
    options: ClassVar[type[SchedulerOptions]] = SchedulerOptions

    @classmethod
    def make(cls, options: SchedulerOptions, most: int) -> RoundRobin:  # noqa: ARG003
        return cls()


GROUP = "remote_inference.schedulers"  # of the entry points by which other distributions add schedulers

SCHEDULERS = Registry[type[Scheduler]]("scheduler", group=GROUP)
SCHEDULERS.add("round_robin", RoundRobin)
SCHEDULERS.add("micro_batch", MicroBatch)
