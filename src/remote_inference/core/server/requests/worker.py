# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The inference loop: take a prepared batch, run the policy, pass it on. A failure costs one ERROR chunk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from remote_inference.core.policy import Policy, ServingMode, predict_all, show_policy_version
from remote_inference.core.server.policy_watch import PolicyWatch
from remote_inference.core.server.requests.finishing import Consumers, Finishing
from remote_inference.core.server.requests.intake import LOST_WAKE_UP_S, Intake, Submit
from remote_inference.core.server.requests.job import Job, ended
from remote_inference.core.server.requests.preparation import Decoder, Preparation
from remote_inference.core.server.schedulers.scheduler import Scheduler
from remote_inference.core.server.sessions.session import Session

ALONE_NS = 10_000_000_000  # how long a session is served alone whose request has failed a batch
BATCHES_ON_THE_WAY_OUT = 2  # being finished and waiting for it; a device that is faster waits


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

        clock_ns: monotonic. watch: learns the outcome of every batch.

        prepare: runs a task on one of several threads. finish: runs tasks on one thread, in order.
        on_free: called by that thread when a session has left service whose next request already waits.

        update_weights: called between two batches; may change the policy's weights, and returns the version
        of those that the next batch is served with.
        """
        self._policy = policy
        self._clock_ns = clock_ns
        self._watch = watch
        self._finishing = Finishing(policy, watch, consumers, clock_ns)
        preparation = Preparation(decoder, clock_ns, self._finishing.take_error)
        self._intake = Intake(new_scheduler, preparation.prepare, clock_ns, prepare)
        self._finish = finish
        self._on_free = on_free
        self._update_weights = update_weights
        self._way_out = threading.Semaphore(BATCHES_ON_THE_WAY_OUT)
        self.busy = watch.busy
        self.counters = self._finishing.counters
        self.inference_ms = self._finishing.inference_ms
        self.response_ms = self._finishing.response_ms

    @property
    def draining(self) -> bool:
        """Whether answers carry DRAINING."""
        return self._finishing.draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self._finishing.draining = draining

    @property
    def wait_ns(self) -> int:
        """Time the scheduler waits to fill a batch [ns]; 0: until the next request."""
        return self._intake.wait_ns

    def look_ahead(self, sessions: Sequence[Session]) -> None:
        """Begin to prepare the next batch if the device is busy; for any thread, when a request has come."""
        self._intake.look_ahead(sessions)

    def step(self, sessions: Sequence[Session]) -> bool:
        """Serve one batch; return whether there was one."""
        policy_version = show_policy_version(self._policy.spec.fingerprint, self._find_version())
        self._watch.check_when_due(self._clock_ns, episode_at_stake=self._has_history(sessions))
        begin_ns = self._clock_ns()
        batch = self._intake.take(sessions)
        if not batch.jobs:
            return False
        self.busy.begin(begin_ns)
        self._intake.look_ahead(sessions)
        self._intake.complete(batch)
        for job in batch.jobs:
            job.policy_version = policy_version
        for jobs in self._split(batch.jobs):
            self._serve(jobs)
        self.busy.add(begin_ns, self._clock_ns())
        return True

    def _find_version(self) -> int:
        """Return the version of the weights from now on. To exchange and probe them is work that may hang."""
        begin_ns = self._clock_ns()
        self.busy.begin(begin_ns)
        version = self._update_weights()
        self.busy.add(begin_ns, self._clock_ns())
        return version

    def _has_history(self, sessions: Sequence[Session]) -> bool:
        """Return whether the policy itself, and not only its processors, remembers a robot's episode."""
        return self._is_exclusive and any(session.episode_id is not None for session in sessions)

    @property
    def _is_exclusive(self) -> bool:
        return self._policy.spec.serving_mode is ServingMode.EXCLUSIVE

    def _split(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """Return the jobs that the policy gets together, and each recent offender's by itself, last."""
        now_ns = self._clock_ns()
        alone = [job for job in jobs if now_ns < job.session.alone_until_ns]
        together = [job for job in jobs if now_ns >= job.session.alone_until_ns]
        return [group for group in (together, *([job] for job in alone)) if group]

    def _serve(self, jobs: list[Job]) -> None:
        for job in jobs:
            if job.unanswered is None and job.session.ended:
                job.unanswered = ended(job)
        answered = [job for job in jobs if job.unanswered is None]
        begin_ns = self._clock_ns()
        for job in answered:
            job.batch_size, job.predict_begin_ns = len(answered), begin_ns
            self._begin_episode(job)
        asked = [job for job in answered if not job.error]
        for job in asked:
            job.asked = True
        self._predict(asked)
        self._note_offenders(asked)
        self._pass_on(jobs)

    def _begin_episode(self, job: Job) -> None:
        if not job.begins_episode or job.error:
            return
        try:
            if self._is_exclusive:
                self._policy.reset()
        except BaseException as error:
            job.error = self._finishing.take_error("preprocessing failed", error)
            job.blames_policy = True
        else:
            job.session.episode_id = job.request.episode_id

    # -- the policy ----------------------------------------------------------------------------------------

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
            return self._finishing.take_error("inference failed", error)
        finally:
            for job in jobs:
                job.device_ns += (self._clock_ns() - begin_ns) // len(jobs)
        for job, chunk_model in zip(jobs, chunks, strict=True):
            job.chunk_model, job.batch_size = chunk_model, len(jobs)
        return ""

    def _note_offenders(self, asked: Sequence[Job]) -> None:
        """Serve sessions alone for a while that have failed a batch which the policy answered otherwise."""
        now_ns = self._clock_ns()
        failed = [job for job in asked if job.error]
        for job in failed:
            if len(failed) < len(asked) or now_ns < job.session.alone_until_ns:
                job.session.alone_until_ns = now_ns + ALONE_NS

    # -- the way out ---------------------------------------------------------------------------------------

    def _pass_on(self, jobs: Sequence[Job]) -> None:
        if self._finish is None:
            self._finishing.finish(jobs)
            return
        while not self._way_out.acquire(timeout=LOST_WAKE_UP_S):
            pass  # busy: a server whose answers do not get out is at its limit, and finally hangs
        self._finish(partial(self._finish_on_its_thread, jobs))

    def _finish_on_its_thread(self, jobs: Sequence[Job]) -> None:
        self._finishing.finish(jobs)
        self._way_out.release()
        if any(job.session.mailbox.arrival_ns is not None for job in jobs):
            self._on_free()
