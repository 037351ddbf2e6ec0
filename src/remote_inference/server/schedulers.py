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

    options: ClassVar[type[SchedulerOptions]]

    @classmethod
    def make(cls, options: Any, most: int) -> Scheduler:
        """Return one. options: of its own model. most: sessions of a selection, as the policy allows."""

    def select(self, ready: Sequence[Session], joinable: int, now_ns: int, chosen: int = 0) -> Selection:
        """Choose from `ready`, the sessions with a waiting request.

        joinable: how many sessions the batch may wait for; 0 while the device is busy. chosen: the number of
        sessions that are in the batch already.
        """

    def note_call(self, requests: int, took_ns: int) -> None:
        """Note how long the policy took for a batch; on the thread that calls it."""


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
        chosen = self.order(ready)[:count]
        if chosen:
            self._virtual_ns = chosen[-1].account.virtual_ns
        for session in chosen:
            self._queue_up(session)
        return chosen

    def order(self, ready: Sequence[Session]) -> list[Session]:
        """Return all in the order of their turns."""
        return sorted(ready, key=lambda one: (one.account.virtual_ns, one.account.last_chosen))

    def _find_least_ns(self, costs_ns: Sequence[int]) -> int:
        """Return the least cost of those that wait. costs_ns: of sessions that have been chosen before."""
        return min((one for one in costs_ns if one >= self._virtual_ns), default=self._virtual_ns)

    def _admit(self, ready: Sequence[Session]) -> None:
        """Raise the cost of sessions that are new, or come back, to the least cost of those that wait."""
        costs_ns = [session.account.virtual_ns for session in ready if session.account.last_chosen]
        least_ns = self._find_least_ns(costs_ns)
        for session in ready:
            session.account.raise_to(least_ns)
            if not session.account.last_chosen:
                self._queue_up(session)

    def _queue_up(self, session: Session) -> None:
        self._count += 1
        session.account.last_chosen = self._count


class MicroBatchOptions(SchedulerOptions):
    """How many requests, and how long one waits for others."""

    max_batch: Annotated[int, Field(ge=1, le=1_024, description="most requests in one call")] = 8
    batch_window_ms: Annotated[float, Field(ge=0.0, le=1000.0)] = 5.0
    """longest wait for more requests in one call [ms]"""

    @property
    def most(self) -> int:
        return self.max_batch


class MicroBatch:
    """Up to `max_batch` requests in one call, of the waiting sessions that have cost least.

    The session that has waited longest waits at most `window_ns` for others to join it, however often it
    asks meanwhile. It does not wait when no other session could join.
    """

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
        return Selection(self._queue.take(ready, max(0, self._max_batch - chosen)))

    def note_call(self, requests: int, took_ns: int) -> None:
        """Its choice depends on no duration."""


class RoundRobin(MicroBatch):
    """One request after the other, of the waiting session that has cost least."""

    options: ClassVar[type[SchedulerOptions]] = SchedulerOptions

    @classmethod
    def make(cls, options: SchedulerOptions, most: int) -> RoundRobin:  # noqa: ARG003
        return cls()


AHEAD_NS = 1_000_000_000  # of the cost that an urgent session may have beyond that which has cost least


class UrgentQueue(FairQueue):
    """The session comes first whose robot's queue ends soonest; nobody waits for ever for others' urgency.

    A session that has cost `AHEAD_NS` more than the one that has cost least comes after all that have not.
    So a robot that asks for more than its share of a busy server gets its share, and no more. The rest is
    earliest deadline first (Liu and Layland, 1973).
    """

    def __init__(self) -> None:
        super().__init__()
        self._least_ns = 0

    def _find_least_ns(self, costs_ns: Sequence[int]) -> int:
        # A session that waits although others were more urgent has not been away, and forfeits nothing.
        self._least_ns = max(self._least_ns, min(costs_ns, default=0))
        return self._least_ns

    def order(self, ready: Sequence[Session]) -> list[Session]:
        most_ns = min((one.account.virtual_ns for one in ready), default=0) + AHEAD_NS

        def turn(session: Session) -> tuple[bool, int, int]:
            return session.account.virtual_ns > most_ns, due_ns(session), session.account.last_chosen

        return sorted(ready, key=turn)


def due_ns(session: Session) -> int:
    """Return when the queue of a waiting session's robot ends."""
    letter = session.mailbox.letter
    return letter.due_ns if letter is not None else 0


class CallTimes:
    """How long the policy takes for a batch, by its size: the mean of what it took lately."""

    def __init__(self) -> None:
        self._mean_ns: dict[int, float] = {}

    def note(self, requests: int, took_ns: int) -> None:
        before = self._mean_ns.get(requests, float(took_ns))
        self._mean_ns[requests] = before + RECENT * (took_ns - before)

    def expect_ns(self, requests: int) -> float:
        """Return what a batch takes; of a size that has not been: what the next smaller one takes."""
        return max((ns for size, ns in self._mean_ns.items() if size <= requests), default=0.0)


RECENT = 0.2  # of the mean is the last call's


class DeadlineOptions(MicroBatchOptions):
    """The same, for one request at a time where a manifest says no more."""

    max_batch: Annotated[int, Field(ge=1, le=1024)] = 1
    """most requests in one call; where nothing is said 1, micro_batch: 8"""


class Deadline(MicroBatch):
    """Up to `max_batch` requests in one call, of the robots whose queues end soonest.

    A batch is smaller where its time would let the first of them run out, unless that is late already. It
    waits for others, as `MicroBatch` does, where the first has time for that.
    """

    options: ClassVar[type[SchedulerOptions]] = DeadlineOptions

    def __init__(self, max_batch: int = 1, window_ns: int = 0) -> None:
        super().__init__(max_batch, window_ns)
        self._queue = UrgentQueue()
        self._times = CallTimes()

    def select(self, ready: Sequence[Session], joinable: int, now_ns: int, chosen: int = 0) -> Selection:
        left_ns = min(map(due_ns, ready), default=now_ns) - now_ns
        if left_ns > self._window_ns + self._times.expect_ns(self._max_batch):
            return super().select(ready, joinable, now_ns, chosen)
        count = max(0, self._max_batch - chosen)
        return Selection(self._queue.take(ready, min(count, self._most_in_time(chosen, left_ns))))

    def note_call(self, requests: int, took_ns: int) -> None:
        self._times.note(requests, took_ns)

    def _most_in_time(self, chosen: int, left_ns: float) -> int:
        """Return how many more requests a batch may get before it takes longer than is left."""
        sizes = range(chosen + 1, self._max_batch + 1)
        in_time = sum(self._times.expect_ns(size) <= left_ns for size in sizes)
        return in_time or len(sizes)


GROUP = "remote_inference.schedulers"  # of the entry points by which other distributions add schedulers

SCHEDULERS = Registry[type[Scheduler]]("scheduler", group=GROUP)
SCHEDULERS.add("round_robin", RoundRobin)
SCHEDULERS.add("micro_batch", MicroBatch)
SCHEDULERS.add("deadline", Deadline)
