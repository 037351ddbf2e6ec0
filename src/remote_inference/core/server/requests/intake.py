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

    @property
    def yields(self) -> bool:
        """Whether it makes room for robots' requests. All jobs of a batch do, or none does."""
        return any(job.session.yields for job in self.jobs)


class Intake:
    """Takes requests out of the mailboxes of the sessions that its schedulers select.

    Sessions that yield are not selected while a robot waits, and never ahead while a robot has a session: a
    robot waits at most for the call of the policy that is running. What was taken ahead before the robot
    opened its session waits, too.

    At most one batch is ahead of the batch that is served. A session whose request has been taken is in
    service, and not selected again until its answer is out. Without a pool nothing is ahead, and `complete`
    prepares each request on the calling thread, in order.
    """

    def __init__(
        self,
        new_scheduler: Callable[[], Scheduler],
        prepare: Callable[[Job], None],
        clock_ns: Callable[[], int],
        submit: Submit | None,
    ) -> None:
        """submit: hands a task to the pool, or None."""
        # One for each rank: what the others cost does not count among robots.
        self._robots, self._yielding = new_scheduler(), new_scheduler()
        self._prepare = prepare
        self._clock_ns = clock_ns
        self._submit = submit
        self._changed = threading.Condition()  # guards all below, and the schedulers
        self._next = Batch()
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
                jobs = self._take_requests(self._select_ahead(sessions))
                self._next.jobs += jobs
                self._prepare_on_pool(self._next, jobs)

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
        if not self._next.jobs or self._next.yields:  # else they have what they want
            selection = self._ask(self._robots, robots, len(robots))
            if selection.batch or selection.wait_ns:
                return Batch(), selection
        batch, self._next = self._next, Batch()
        return batch, Selection() if batch.jobs else self._ask(self._yielding, others, len(others))

    def _select_ahead(self, sessions: Sequence[Session]) -> Selection:
        robots, others = _by_rank(sessions)
        if robots:
            return Selection() if self._next.yields else self._ask(self._robots, robots, joinable=0)
        return self._ask(self._yielding, others, joinable=0)

    def _ask(self, scheduler: Scheduler, sessions: Sequence[Session], joinable: int) -> Selection:
        ready = [
            session
            for session in sessions
            if not session.in_service and session.mailbox.arrival_ns is not None
        ]
        chosen = 0 if scheduler is self._robots and self._next.yields else len(self._next.jobs)
        return scheduler.select(ready, joinable, self._clock_ns(), chosen)

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
