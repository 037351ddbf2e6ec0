# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The inference loop: choose and prepare a batch, run the policy, finish. A failure costs one ERROR chunk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from remote_inference.base.policy import Policy, ServingMode, predict_all, show_policy_version
from remote_inference.server.policy_watch import PolicyWatch
from remote_inference.server.requests.job import Consumers, Decoder, Finishing, Job, Preparation
from remote_inference.server.schedulers import Scheduler, Selection
from remote_inference.server.sessions import Session

Submit = Callable[[Callable[[], None]], None]  # runs a task later, on another thread

LOST_WAKE_UP_S = 0.1  # longest wait without a check


@dataclass
class Batch:
    """Requests for one call of the policy. Threads of the pool prepare all but `own`."""

    jobs: list[Job] = field(default_factory=list)
    own: list[Job] = field(default_factory=list)  # that the device's thread prepares
    preparing: int = 0  # jobs that the pool has not finished yet


@dataclass
class _Rank:
    """The scheduler and the next batch of the robots, or of the sessions that yield to them."""

    scheduler: Scheduler
    ahead: Batch = field(default_factory=Batch)

    def take_ahead(self) -> Batch:
        batch, self.ahead = self.ahead, Batch()
        return batch


class Intake:
    """Chooses batches from the mailboxes, and prepares the next one while the policy computes.

    Sessions that yield are not selected while a robot waits, and never ahead while a robot has a session: a
    robot waits at most for the call of the policy that is running.

    At most one batch of each rank is prepared ahead. A session whose request has been taken is in service,
    and not selected again until its answer is sent. Without a pool nothing is prepared ahead, and `complete`
    prepares each request on the calling thread, in order.
    """

    def __init__(
        self,
        new_scheduler: Callable[[], Scheduler],
        prepare: Callable[[Job], None],
        clock_ns: Callable[[], int],
        submit: Submit | None,
    ) -> None:
        """submit: runs a task on the pool; None: there is none."""
        self._robots, self._yielding = _Rank(new_scheduler()), _Rank(new_scheduler())
        self._prepare = prepare
        self._clock_ns = clock_ns
        self._submit = submit
        self._changed = threading.Condition()  # guards all below, and the ranks
        self._device_busy = False
        self.wait_ns = 0  # time the scheduler waits to fill a batch; 0: until the next request

    def prepare_ahead(self, sessions: Sequence[Session]) -> None:
        """Add waiting requests to the next batch while the device is busy, and begin to prepare them.

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

    def note_call(self, requests: int, took_ns: int) -> None:
        """Tell the schedulers how long the policy took for a batch."""
        with self._changed:
            for rank in (self._robots, self._yielding):
                rank.scheduler.note_call(requests, took_ns)

    def _choose(self, sessions: Sequence[Session]) -> tuple[Batch, Selection]:
        """Return the batch that was prepared ahead, or an empty one and a selection: robots first."""
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
            session for session in sessions if not session.in_service and session.mailbox.letter is not None
        ]
        return rank.scheduler.select(ready, joinable, self._clock_ns(), chosen=len(rank.ahead.jobs))

    @staticmethod
    def _take_requests(selection: Selection) -> list[Job]:
        jobs = []
        for session in selection.batch:
            session.in_service = True  # before the mailbox is empty: `Serving.idle` checks it first
            if (queued := session.mailbox.take()) is None:  # taken since, which no other thread does
                session.in_service = False
            else:
                jobs.append(Job(session, queued))
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


ALONE_NS = 10_000_000_000  # how long a session is served alone whose request has failed a batch
MAX_FINISHING_BATCHES = 2  # being finished and waiting for it; a device that is faster waits


class Worker:
    """Serves one policy. `step` belongs to one thread, which owns the device and alone calls the policy.

    With pools that thread only predicts: `prepare` decodes and preprocesses the next batch meanwhile, one
    task per request, and `finish` postprocesses and answers. Without them it does everything, in order.
    """

    def __init__(
        self,
        policy: Policy,
        new_scheduler: Callable[[], Scheduler],
        decoder: Decoder,
        consumers: Consumers,
        *,
        clock_ns: Callable[[], int],
        watch: PolicyWatch,
        prepare: Submit | None = None,
        finish: Submit | None = None,
        on_free: Callable[[], None] = lambda: None,
        update_weights: Callable[[], int] = lambda: 0,
    ) -> None:
        """new_scheduler: makes one for robots, and one for the sessions that yield to them.

        clock_ns: monotonic. watch: counts the outcome of every batch. prepare: runs a task on one of several
        threads. finish: runs tasks on one thread, in order. on_free: called by that thread when a session has
        left service whose next request already waits. update_weights: called between two batches; may change
        the policy's weights, and returns the version that the next batch is served with.
        """
        self._policy = policy
        self._clock_ns = clock_ns
        self._watch = watch
        self.finishing = Finishing(policy, watch, consumers, clock_ns)
        preparation = Preparation(decoder, clock_ns, self.finishing.note_error)
        self.intake = Intake(new_scheduler, preparation.prepare, clock_ns, prepare)
        self._finish = finish
        self._on_free = on_free
        self._update_weights = update_weights
        self._finishing_slots = threading.Semaphore(MAX_FINISHING_BATCHES)
        self.busy = watch.busy

    def step(self, sessions: Sequence[Session]) -> bool:
        """Serve one batch; return whether there was one."""
        policy_version = show_policy_version(self._policy.spec.fingerprint, self._find_version())
        # Whether the policy itself, and not only its processors, remembers a robot's episode.
        at_stake = self._is_exclusive and any(session.episode_id is not None for session in sessions)
        self._watch.check_when_due(self._clock_ns, episode_at_stake=at_stake)
        begin_ns = self._clock_ns()
        batch = self.intake.take(sessions)
        if not batch.jobs:
            return False
        self.busy.begin(begin_ns)
        self.intake.prepare_ahead(sessions)
        self.intake.complete(batch)
        for job in batch.jobs:
            job.policy_version = policy_version
        for jobs in self._split(batch.jobs):
            self._serve(jobs)
        self.busy.add(begin_ns, self._clock_ns())
        return True

    def _find_version(self) -> int:
        """Update the weights and return their version. It counts as busy: it may hang."""
        begin_ns = self._clock_ns()
        self.busy.begin(begin_ns)
        version = self._update_weights()
        self.busy.add(begin_ns, self._clock_ns())
        return version

    @property
    def _is_exclusive(self) -> bool:
        return self._policy.spec.serving_mode is ServingMode.EXCLUSIVE

    def _split(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """Return the jobs for one call of the policy, then those of recently failing sessions one by one."""
        now_ns = self._clock_ns()
        alone = [job for job in jobs if now_ns < job.session.alone_until_ns]
        together = [job for job in jobs if now_ns >= job.session.alone_until_ns]
        return [group for group in (together, *([job] for job in alone)) if group]

    def _serve(self, jobs: list[Job]) -> None:
        for job in jobs:
            if job.unanswered is None and job.session.ended:
                job.drop("its session has ended")
        answered = [job for job in jobs if job.unanswered is None]
        begin_ns = self._clock_ns()
        for job in answered:
            job.batch_size, job.predict_begin_ns = len(answered), begin_ns
            self._begin_episode(job)
        asked = [job for job in answered if not job.error]
        for job in asked:
            job.asked = True
        self._predict(asked)
        self._isolate_failing(asked)
        self._pass_on(jobs)

    def _begin_episode(self, job: Job) -> None:
        if not job.begins_episode or job.error:
            return
        try:
            if self._is_exclusive:
                self._policy.reset()
        except BaseException as error:
            job.error = self.finishing.note_error("preprocessing failed", error)
            job.blames_policy = True
        else:
            job.session.episode_id = job.request.episode_id

    def _predict(self, jobs: list[Job]) -> None:
        """Run the policy on a batch. If that fails, run each half of it, so that only the culprit fails."""
        if not jobs:
            return
        problem = self._try_to_predict(jobs)
        if problem and len(jobs) == 1:
            jobs[0].error = problem
        elif problem:
            middle = len(jobs) // 2
            self._predict(jobs[:middle])
            self._predict(jobs[middle:])

    def _try_to_predict(self, jobs: list[Job]) -> str:
        """Return what went wrong, or "". The exception itself would hold the batch's device memory."""
        begin_ns = self._clock_ns()
        try:
            chunks = predict_all(self._policy, [job.model_input for job in jobs])
        except BaseException as error:  # a policy may raise anything; the server must survive it
            return self.finishing.note_error("inference failed", error)
        finally:
            took_ns = self._clock_ns() - begin_ns
            for job in jobs:
                job.device_ns += took_ns // len(jobs)
        self.intake.note_call(len(jobs), took_ns)
        for job, chunk_model in zip(jobs, chunks, strict=True):
            job.chunk_model, job.batch_size = chunk_model, len(jobs)
        return ""

    def _isolate_failing(self, asked: Sequence[Job]) -> None:
        """Serve sessions alone for a while whose requests fail in batches that otherwise succeed."""
        now_ns = self._clock_ns()
        failed = [job for job in asked if job.error]
        for job in failed:
            if len(failed) < len(asked) or now_ns < job.session.alone_until_ns:
                job.session.alone_until_ns = now_ns + ALONE_NS

    def _pass_on(self, jobs: Sequence[Job]) -> None:
        if self._finish is None:
            self.finishing.finish(jobs)
            return
        while not self._finishing_slots.acquire(timeout=LOST_WAKE_UP_S):
            pass  # counts as busy: a server whose answers do not get out is overloaded, and finally hangs
        self._finish(partial(self._finish_on_its_thread, jobs))

    def _finish_on_its_thread(self, jobs: Sequence[Job]) -> None:
        self.finishing.finish(jobs)
        self._finishing_slots.release()
        if any(job.session.mailbox.letter is not None for job in jobs):
            self._on_free()
