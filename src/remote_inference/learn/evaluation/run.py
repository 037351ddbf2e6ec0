# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs an evaluation: every episode that is not there yet.

An error of the environment, the network or a policy costs at most its own episode and is counted by kind. An
episode that could not be played has no line; the next run plays it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from remote_inference.base.errors import UserError
from remote_inference.learn.environment import (
    EnvError,
    Environment,
    EnvironmentSpec,
    EnvLostError,
    Metrics,
    NotFiniteError,
)
from remote_inference.learn.environments.emulated_robot import EmulatedRobot, NetworkPath
from remote_inference.learn.environments.policy_view import PolicyView
from remote_inference.learn.environments.process_environment import ProcessEnvironment
from remote_inference.learn.environments.runners import Timeouts
from remote_inference.learn.evaluation import episode_ledger
from remote_inference.learn.evaluation.blinding import mix
from remote_inference.learn.evaluation.document import REAL_TIME, EpisodeKey, Evaluation
from remote_inference.learn.evaluation.episode_ledger import EpisodeLedger, Played, Report, Tally
from remote_inference.learn.evaluation.play import PLAY, Episode
from remote_inference.learn.evaluation.policies import POLICIES, EvaluatedPolicy
from remote_inference.learn.evaluation.real_time import play_in_real_time
from remote_inference.learn.evaluation.results import EpisodeResult, ResultsFolder, check_versions
from remote_inference.learn.rollouts.film_strip import Film

if TYPE_CHECKING:
    from remote_inference.learn.evaluation.saving import SavedEpisodes  # imports pyarrow

JOIN_S = 15.0  # until a worker that does not end is given up
POLL_S = 0.2  # between two checks whether the workers have ended


@dataclass(frozen=True)
class Shard:
    """A part of the episodes: the number-th of `count` equal ones, from 1."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read such as `3/16`. Raises UserError."""
        number, slash, count = text.partition("/")
        if slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
            return cls(int(number), int(count))
        raise UserError(f"--shard: found {text!r}, expected such as 3/16")

    def pick(self, keys: Iterable[EpisodeKey]) -> list[EpisodeKey]:
        return list(keys)[self.number - 1 :: self.count]


class Run:
    """One run of an evaluation. `stop` is for any thread.

    In virtual time as many episodes are played at once as there are environments, each in a process of its
    own.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        home: Path,
        folder: ResultsFolder,
        *,
        shard: Shard | None = None,
        timeouts: Timeouts | None = None,
        report: Report | None = None,
        save: Callable[[EnvironmentSpec], SavedEpisodes] | None = None,
    ) -> None:
        """home: folder of the document, to which its paths are relative. report: called as episodes end.

        save: begins a data set of the episodes that this run plays. Raises UserError where it cannot.
        """
        if save is not None and REAL_TIME in evaluation.modes:
            raise UserError(f"--save: found the mode {REAL_TIME}, expected others: record a bag of that one")
        self._evaluation, self._home, self._timeouts = evaluation, home, timeouts
        self._shard = shard or Shard()
        self._save = save
        self._ledger = EpisodeLedger(folder, report)
        self._lock = threading.Lock()
        self._stop = self._ledger.stop
        self._due: deque[EpisodeKey] = deque()
        self._environments: list[ProcessEnvironment] = []
        self._policies: Mapping[str, EvaluatedPolicy] = {}
        self._first_error: BaseException | None = None

    @property
    def tally(self) -> Tally:
        return self._ledger.tally

    def run(self) -> Tally:
        """Play what is due, the episodes in real time last; those are for the main thread, as signals are.

        Raises UserError when nothing can be played, ResultsError when a result cannot be kept.
        """
        with self._open_environment() as environment:
            spec = environment.spec
            for task in self._evaluation.tasks:
                spec.check_task(task)
            keys = self._shard.pick(self._evaluation.keys(spec.tasks[0]))
            due = [key for key in keys if key not in self._ledger.folder.results]
            due = mix(due) if self._evaluation.blind else due
            real = [key for key in due if key.condition.mode == REAL_TIME]
            virtual = [key for key in due if key.condition.mode != REAL_TIME]
            if virtual:
                self._play_in_virtual_time(virtual, environment)
        if real:
            play_in_real_time(real, self._evaluation, self._home, spec, self._ledger)
        return self.tally

    def stop(self) -> None:
        """End the run soon; episodes that are being played are given up and have no line."""
        self._stop.set()
        with self._lock:
            environments = list(self._environments)
        for environment in environments:
            environment.abort()
        for policy in self._policies.values():
            policy.abort()

    def _play_in_virtual_time(self, keys: Sequence[EpisodeKey], environment: ProcessEnvironment) -> None:
        with ExitStack() as stack:
            policies = open_policies(self._evaluation, self._home, environment.spec, stack)
            versions = {name: policy.spec.fingerprint for name, policy in policies.items()}
            check_versions(versions, self._ledger.folder)
            check = partial(check_robots, self._evaluation, policies, environment)
            self.tally.warnings = self._ledger.retry(check, EnvLostError, Counter())
            if self._save is not None:
                self._ledger.saved = stack.enter_context(self._save(environment.spec))
            self._policies = policies
            self._run_workers(keys, environment)

    def _run_workers(self, keys: Sequence[EpisodeKey], first: ProcessEnvironment) -> None:
        """Play all episodes. first: an open environment. Raises what ended them early, an interrupt, too."""
        self._due.extend(keys)
        owned = [first, *[None] * (min(self._evaluation.num_envs, len(keys)) - 1)]
        workers = [
            threading.Thread(target=self._work, args=(one,), name=f"episodes_{number}", daemon=True)
            for number, one in enumerate(owned)
        ]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                while worker.is_alive():  # a join without a timeout would not notice an interrupt
                    worker.join(POLL_S)
        except BaseException:
            self.stop()
            end_s = time.monotonic() + JOIN_S
            for worker in workers:
                if worker.ident is not None:  # it was started
                    worker.join(max(0.0, end_s - time.monotonic()))
            raise
        if self._first_error is not None:
            raise self._first_error

    @contextmanager
    def _open_environment(self) -> Iterator[ProcessEnvironment]:
        """Start one of the evaluation's environments, again where it dies meanwhile. Raises EnvError."""
        source = self._evaluation.environment
        environment = ProcessEnvironment(source.name, source.options, self._timeouts)
        with self._lock:
            self._environments.append(environment)
        if self._stop.is_set():  # `stop` may have missed it
            environment.abort()
        try:
            self._ledger.retry(environment.start, EnvLostError, Counter())
            yield environment
        finally:
            environment.close()

    # -- on the workers' threads ---------------------------------------------------------------------------

    def _work(self, environment: ProcessEnvironment | None) -> None:
        """Play episodes until none is due. environment: None for one of the thread's own."""
        try:
            with ExitStack() as stack:
                if environment is None:
                    environment = stack.enter_context(self._open_environment())
                while (key := self._next_key()) is not None:
                    self._play(environment, self._policies[key.condition.policy], key)
        except BaseException as error:
            with self._lock:
                is_end = self._stop.is_set()  # then its environment was ended on purpose
                if self._first_error is None and not is_end:
                    self._first_error = error
            self.stop()

    def _next_key(self) -> EpisodeKey | None:
        with self._lock:
            return None if self._stop.is_set() or not self._due else self._due.popleft()

    def _play(self, environment: ProcessEnvironment, policy: EvaluatedPolicy, key: EpisodeKey) -> None:
        saved = self._ledger.saved

        def attempt(met: Counter[str]) -> Played:
            view = PolicyView(environment.spec, policy.spec)
            limit = self._evaluation.limit_steps(environment.spec)
            episode = Episode(
                key,
                environment,
                view,
                policy.begin(key.seed),
                self._evaluation,
                limit,
                Film(environment, view.wanted, limit),
                ticks=None if saved is None else [],
                shows=() if saved is None else saved.wanted,
            )
            return Played(self._finish(episode, met), episode.ticks or (), episode.film)

        self._ledger.play(key, attempt)

    def _finish(self, episode: Episode, met: Counter[str]) -> EpisodeResult:
        """Play an episode once. An error that counts as its failure ends it; others are raised."""
        why = ""
        try:
            PLAY[episode.key.condition.mode](episode)
        except Exception as error:
            if not episode_ledger.find_failure(error).is_result:
                raise
            self._ledger.count(error, met)
            why = episode_ledger.describe(error)
        try:
            metrics = episode.environment.metrics()
        except EnvError:
            if not why:
                raise
            metrics = Metrics(False)  # some environments know them at an episode's end alone
        return episode.finish(metrics, why)


# -- What is done before: the policies are opened, and it is checked whether they can play at all ---------


def open_policies(
    evaluation: Evaluation, home: Path, spec: EnvironmentSpec, stack: ExitStack
) -> dict[str, EvaluatedPolicy]:
    """Return the policies by name. home: of the document. stack: closes them. Raises PolicyError."""
    policies: dict[str, EvaluatedPolicy] = {}
    for name, source in evaluation.policies.items():
        place = evaluation.place_of(name, home)
        with episode_ledger.naming(f"policies.{name}"):
            policies[name] = POLICIES.get(source.kind)(place, spec, evaluation.num_envs)
        stack.callback(_close, policies[name])
    return policies


def check_robots(
    evaluation: Evaluation, policies: Mapping[str, EvaluatedPolicy], environment: Environment
) -> list[str]:
    """Return what works badly at a latency. Raises UserError for a policy or robot that cannot work."""
    warnings: list[str] = []
    task = (evaluation.tasks or environment.spec.tasks)[0]
    for name, policy in policies.items():
        view = PolicyView(environment.spec, policy.spec)
        try:
            first = environment.reset(evaluation.first_seed, task, view.wanted)
        except NotFiniteError as error:  # costs this seed's episodes alone
            warnings.append(f"policies.{name} was not checked: {error}")
            continue
        for latency_ms in evaluation.latencies_ms:
            what = f"policies.{name} at {latency_ms:g} ms"
            with episode_ledger.naming(what):
                path = NetworkPath(latency_ms / 1e3, evaluation.jitter_ms / 1e3)
                robot = EmulatedRobot(view, evaluation.robot, task, first=first, path=path)
            warnings += [f"{what}: {warning}" for warning in robot.warnings]
    return warnings


def _close(policy: EvaluatedPolicy) -> None:
    with suppress(UserError):  # one that hangs was reported
        policy.close()
