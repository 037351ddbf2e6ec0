# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Chooses requests from the mailboxes, and has them prepared before the device is free for them.

The device never waits for a preparation that takes longer than others: what is not ready is in a later
batch. A session whose preparation is slow gets a thread of its own, lest it keeps the pool's from others.
"""

from __future__ import annotations

import statistics
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from remote_inference.server.requests.job import Job
from remote_inference.server.schedulers import Scheduler
from remote_inference.server.sessions import Session

Submit = Callable[[Callable[[], None]], None]  # runs a task later, on another thread

FIRST_PATIENCE_NS = 50_000_000  # with a preparation, until it is known how long they take
LEAST_PATIENCE_NS = 5_000_000
PATIENCE = 2  # times what they typically took
REMEMBERED = 64  # preparations
SLOW_NS = 100_000_000  # of a preparation that gets a thread of its own from then on


def run_apart(task: Callable[[], None]) -> None:
    """Run a task on a thread of its own, which keeps no process from ending."""
    threading.Thread(target=task, name="prepare_apart", daemon=True).start()


@dataclass
class _Rank:
    """The scheduler of the robots, or of the sessions that yield to them, and what it has chosen.

    chosen: in the order of their turns, each prepared or being prepared. most: requests that it has chosen
    for one call of the policy.
    """

    scheduler: Scheduler
    chosen: list[Job] = field(default_factory=list)
    most: int = 1


class Intake:
    """Chooses batches from the mailboxes, and has them prepared.

    Sessions that yield are not chosen while a robot waits, and never ahead while a robot has a session: a
    robot waits at most for the call of the policy that is running.

    At most one batch of each rank is prepared ahead, besides what is slow. A session whose request has been
    taken is in service, and not chosen again until its answer is sent. Without a pool requests are prepared
    on the calling thread, in order, as they are chosen.
    """

    def __init__(
        self,
        new_scheduler: Callable[[], Scheduler],
        prepare: Callable[[Job], None],
        clock_ns: Callable[[], int],
        submit: Submit | None,
        *,
        on_ready: Callable[[], None] = lambda: None,
        on_slow: Callable[[], None] = lambda: None,
    ) -> None:
        """submit: runs a task on the pool; None: there is none. on_ready: called when a request is prepared.

        on_slow: called when one of the pool's threads is taken for long.
        """
        self._robots, self._yielding = _Rank(new_scheduler()), _Rank(new_scheduler())
        self._prepare = prepare
        self._clock_ns = clock_ns
        self._submit = submit
        self._on_ready, self._on_slow = on_ready, on_slow
        self._lock = threading.RLock()  # guards all below, and the ranks
        self._device_busy = False
        self._took_ns: deque[int] = deque(maxlen=REMEMBERED)
        self.wait_ns = 0  # until the device's thread should look again; 0: until the next request

    def prepare(self, sessions: Sequence[Session]) -> None:
        """Choose waiting requests, and begin to prepare them.

        Call it when a request has come or a session has left service; any thread may.
        """
        if self._submit is not None:
            with self._lock:
                self._choose(sessions)

    def take(self, sessions: Sequence[Session]) -> list[Job]:
        """Return the next batch, all of it prepared; empty when there is none. For the device's thread."""
        with self._lock:
            self._device_busy, self.wait_ns = False, 0
            if not (batch := self._take_ready(self._robots)):
                self._choose(sessions)
                batch = self._take_ready(self._robots)
            if not (batch or self.wait_ns):  # no robot's request is about to be ready
                batch = self._take_ready(self._yielding)
            self._device_busy = bool(batch)
        return batch

    def note_call(self, requests: int, took_ns: int) -> None:
        """Tell the schedulers how long the policy took for a batch."""
        with self._lock:
            for rank in (self._robots, self._yielding):
                rank.scheduler.note_call(requests, took_ns)

    # -- what is ready ---------------------------------------------------------------------------------------

    def _take_ready(self, rank: _Rank) -> list[Job]:
        """Return the jobs whose turn it is, once those are prepared that are not slow."""
        self._part_with_slow(rank)
        rank.chosen = [job for job in rank.chosen if job.prepared or not job.session.ended]
        turn = self._find_prompt(rank)[: rank.most]
        if waiting := [job for job in turn if not job.prepared]:
            longest_ns = max(job.taken_ns for job in waiting) + self._patience_ns(rank)
            self.wait_ns = max(1, longest_ns - self._clock_ns())
            return []
        rank.chosen = [job for job in rank.chosen if job not in turn]
        return turn

    def _find_prompt(self, rank: _Rank) -> list[Job]:
        """Return the jobs that are prepared, or will be in about the usual time."""
        since_ns = self._clock_ns() - self._patience_ns(rank)
        return [job for job in rank.chosen if job.prepared or (job.taken_ns > since_ns and not job.is_apart)]

    def _part_with_slow(self, rank: _Rank) -> None:
        """Wait no more for what is slow, nor count on the thread that it has taken."""
        for job in rank.chosen:
            if not (job.prepared or job.is_apart) and self._clock_ns() - job.taken_ns > SLOW_NS:
                job.is_apart = job.session.prepares_apart = True
                self._on_slow()

    def _patience_ns(self, rank: _Rank) -> int:
        if not self._took_ns:
            return FIRST_PATIENCE_NS
        preparing = sum(not job.prepared for job in rank.chosen)
        return LEAST_PATIENCE_NS + PATIENCE * max(1, preparing) * round(statistics.median(self._took_ns))

    # -- what is chosen --------------------------------------------------------------------------------------

    def _choose(self, sessions: Sequence[Session]) -> None:
        robots = [session for session in sessions if not session.yields]
        if robots:
            waits = self._choose_of(self._robots, robots)
            if waits or self._robots.chosen or self._device_busy:
                return
        self._choose_of(self._yielding, [session for session in sessions if session.yields])

    def _choose_of(self, rank: _Rank, sessions: Sequence[Session]) -> bool:
        """Have what the scheduler chooses prepared; return whether it waits for more requests instead."""
        self._part_with_slow(rank)
        asking = [one for one in sessions if not one.in_service and one.mailbox.letter is not None]
        # A device that is idle takes one batch at once: another one may be ahead of it.
        chosen = len(self._find_prompt(rank)) - (0 if self._device_busy else rank.most)
        joinable = 0 if self._device_busy or rank.chosen else len(sessions)
        selection = rank.scheduler.select(asking, joinable, self._clock_ns(), chosen=max(0, chosen))
        if selection.wait_ns:
            self.wait_ns = selection.wait_ns
            return True
        rank.most = max(rank.most, len(selection.batch) + max(0, chosen))
        for session in selection.batch:
            session.in_service = True  # before the mailbox is empty: `Serving.idle` checks it first
            if (queued := session.mailbox.take()) is None:  # taken since, which no other thread does
                session.in_service = False
                continue
            job = Job(session, queued, taken_ns=self._clock_ns(), is_apart=session.prepares_apart)
            rank.chosen.append(job)
            session.preparing_since_ns = job.taken_ns
            if self._submit is None:
                self._prepare_one(job)
            else:
                (run_apart if job.is_apart else self._submit)(partial(self._prepare_one, job))
        return False

    def _prepare_one(self, job: Job) -> None:
        self._prepare(job)
        with self._lock:
            job.prepared, job.session.preparing_since_ns = True, None
            took_ns = self._clock_ns() - job.taken_ns
            if not job.is_apart:
                self._took_ns.append(took_ns)
            job.session.prepares_apart = took_ns > SLOW_NS
        if self._submit is not None:
            self._on_ready()
