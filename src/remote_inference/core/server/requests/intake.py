# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Chooses the next batch, and has its requests prepared while the policy computes the batch before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from remote_inference.core.server.requests.job import Job
from remote_inference.core.server.schedulers.scheduler import Scheduler, Selection
from remote_inference.core.server.sessions.session import Session

Submit = Callable[[Callable[[], None]], None]  # runs a task later, on another thread

LOST_WAKE_UP_S = 0.1  # longest wait without looking again


@dataclass
class Batch:
    """Requests for one call of the policy. Threads of the pool prepare all but `own`."""

    jobs: list[Job] = field(default_factory=list)
    own: list[Job] = field(default_factory=list)  # that the device's thread prepares
    preparing: int = 0  # jobs that the pool has not finished yet


@dataclass
class _Rank:
    """Robots, or those that yield to them: what the one costs does not count among the others."""

    scheduler: Scheduler
    ahead: Batch = field(default_factory=Batch)

    def take_ahead(self) -> Batch:
        batch, self.ahead = self.ahead, Batch()
        return batch


class Intake:
    """Takes requests out of the mailboxes of the sessions that its schedulers select.

    Sessions that yield are not selected while a robot waits, and never ahead while a robot has a session: a
    robot waits at most for the call of the policy that is running. What was taken ahead before the robot
    opened its session waits, too.

    At most one batch of each rank is ahead of the batch that is served. A session whose request has been
    taken is in service, and not selected again until its answer is out. Without a pool nothing is ahead, and
    `complete` prepares each request on the calling thread, in order.
    """

    def __init__(
        self,
        new_scheduler: Callable[[], Scheduler],
        prepare: Callable[[Job], None],
        clock_ns: Callable[[], int],
        submit: Submit | None,
    ) -> None:
        """submit: hands a task to the pool, or None."""
        self._robots, self._yielding = _Rank(new_scheduler()), _Rank(new_scheduler())
        self._prepare = prepare
        self._clock_ns = clock_ns
        self._submit = submit
        self._changed = threading.Condition()  # guards all below, and the ranks
        self._device_busy = False
        self.wait_ns = 0  # time the scheduler waits to fill a batch; 0: until the next request

    def look_ahead(self, sessions: Sequence[Session]) -> None:
        """Let waiting sessions join the next batch while the device is busy, and begin to prepare.

        Call it when a request has come or a session has left service; any thread may.
        """
        if self._submit is None:
            return
        with self._changed:
            if self._device_busy:  # else its thread chooses, which may wait for more requests
                robots, others = _by_rank(sessions)
                rank = self._robots if robots else self._yielding
                jobs = self._take_requests(self._ask(rank, robots or others, joinable=0))
                rank.ahead.jobs += jobs
                self._prepare_on_pool(rank.ahead, jobs)

    def take(self, sessions: Sequence[Session]) -> Batch:
        """Return the next batch, without jobs when there is none; for the device's thread."""
        with self._changed:
            batch, selection = self._choose(sessions)
            if not batch.jobs:
                self.wait_ns = selection.wait_ns
                batch.jobs = self._take_requests(selection)
                # The device's thread would only wait meanwhile: it prepares one of them itself.
                batch.own = batch.jobs[:1] if self._submit else batch.jobs
                self._prepare_on_pool(batch, batch.jobs[len(batch.own) :])
            self._device_busy = bool(batch.jobs)
        return batch

    def complete(self, batch: Batch) -> None:
        """Return when all requests of a batch are prepared."""
        for job in batch.own:
            self._prepare(job)
        with self._changed:
            while batch.preparing:
                self._changed.wait(LOST_WAKE_UP_S)

    def _choose(self, sessions: Sequence[Session]) -> tuple[Batch, Selection]:
        """Return what was taken ahead, or an empty batch and what is to be taken instead.

        Robots have what they want; when they want nothing, the others are asked.
        """
        robots, others = _by_rank(sessions)
        if self._robots.ahead.jobs:
            return self._robots.take_ahead(), Selection()
        selection = self._ask(self._robots, robots, len(robots))
        if selection.batch or selection.wait_ns:
            return Batch(), selection
        if self._yielding.ahead.jobs:
            return self._yielding.take_ahead(), Selection()
        return Batch(), self._ask(self._yielding, others, len(others))

    def _ask(self, rank: _Rank, sessions: Sequence[Session], joinable: int) -> Selection:
        ready = [
            session
            for session in sessions
            if not session.in_service and session.mailbox.arrival_ns is not None
        ]
        return rank.scheduler.select(ready, joinable, self._clock_ns(), chosen=len(rank.ahead.jobs))

    @staticmethod
    def _take_requests(selection: Selection) -> list[Job]:
        jobs = []
        for session in selection.batch:
            session.in_service = True  # before the mailbox is empty: `Serving.idle` looks there first
            if (letter := session.mailbox.take()) is None:  # taken since, which no other thread does
                session.in_service = False
            else:
                jobs.append(Job(session, letter))
        return jobs

    def _prepare_on_pool(self, batch: Batch, jobs: Sequence[Job]) -> None:
        if self._submit is None:
            return
        batch.preparing += len(jobs)
        for job in jobs:
            self._submit(partial(self._prepare_for, batch, job))

    def _prepare_for(self, batch: Batch, job: Job) -> None:
        self._prepare(job)
        with self._changed:
            batch.preparing -= 1
            self._changed.notify_all()


def _by_rank(sessions: Sequence[Session]) -> tuple[list[Session], list[Session]]:
    """Return the sessions of robots, and those that yield to them."""
    robots = [session for session in sessions if not session.yields]
    return robots, [session for session in sessions if session.yields]
