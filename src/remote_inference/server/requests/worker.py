# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The inference loop: choose and prepare a batch, run the policy, finish. A failure costs one ERROR chunk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from remote_inference.base.policy import Policy, ServingMode, predict_all, show_policy_version
from remote_inference.server.policy_watch import PolicyWatch
from remote_inference.server.requests.intake import Intake, Submit
from remote_inference.server.requests.job import Consumers, Decoder, Finishing, Job, Preparation
from remote_inference.server.schedulers import Scheduler
from remote_inference.server.sessions import Session

LOST_WAKE_UP_S = 0.1  # longest wait without a check
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
        on_ready: Callable[[], None] = lambda: None,
        on_slow: Callable[[], None] = lambda: None,
        on_free: Callable[[], None] = lambda: None,
        update_weights: Callable[[], int] = lambda: 0,
    ) -> None:
        """new_scheduler: makes one for robots, and one for the sessions that yield to them.

        clock_ns: monotonic. watch: counts the outcome of every batch. prepare: runs a task on one of several
        threads. on_ready, on_slow: as of `Intake`. finish: runs tasks on one thread, in order. on_free:
        called by that thread when a session has left service whose next request already waits.
        update_weights: called between two batches; may change the policy's weights, and returns the version
        that the next batch is served with.
        """
        self._policy = policy
        self._clock_ns = clock_ns
        self._watch = watch
        self.finishing = Finishing(policy, watch, consumers, clock_ns)
        preparation = Preparation(decoder, clock_ns, self.finishing.note_error)
        self.intake = Intake(
            new_scheduler, preparation.prepare, clock_ns, prepare, on_ready=on_ready, on_slow=on_slow
        )
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
        if not batch:
            return False
        self.busy.begin(begin_ns)
        self.intake.prepare(sessions)
        for job in batch:
            job.policy_version = policy_version
        for jobs in self._split(batch):
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
