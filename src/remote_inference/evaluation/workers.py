# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Plays episodes in virtual time: as many at once as there are environments, each in a process of its own."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from remote_inference.core.environment import EnvLostError
from remote_inference.environments.policy_view import PolicyView
from remote_inference.environments.process_environment import ProcessEnvironment
from remote_inference.environments.runners import Timeouts
from remote_inference.evaluation.books import Books, Played
from remote_inference.evaluation.document import EpisodeKey, Evaluation
from remote_inference.evaluation.episode_result import EpisodeResult
from remote_inference.evaluation.film import Film
from remote_inference.evaluation.play import PLAY, Episode
from remote_inference.evaluation.policies import EvaluatedPolicy
from remote_inference.evaluation.troubles import describe, find_trouble

JOIN_S = 15.0  # until a worker that does not end is given up
LOOK_S = 0.2  # between two looks whether the workers have ended
Found = TypeVar("Found")


class Workers:
    """The threads and environments of one run. `stop` is for any thread."""

    def __init__(self, evaluation: Evaluation, books: Books, timeouts: Timeouts | None = None) -> None:
        self._evaluation, self._books, self._timeouts = evaluation, books, timeouts
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._due: deque[EpisodeKey] = deque()
        self._environments: list[ProcessEnvironment] = []
        self._policies: Mapping[str, EvaluatedPolicy] = {}
        self._first_error: BaseException | None = None

    def play(
        self,
        keys: Iterable[EpisodeKey],
        first: ProcessEnvironment,
        policies: Mapping[str, EvaluatedPolicy],
    ) -> None:
        """Play all episodes. first: an environment that is open. An interrupt ends the workers, too.

        Raises what ended them early.
        """
        self._due.extend(keys)
        self._policies = policies
        count = min(self._evaluation.num_envs, len(self._due))
        owned = [first, *[None] * (count - 1)]
        workers = [
            threading.Thread(target=self._work, args=(one,), name=f"episodes_{number}", daemon=True)
            for number, one in enumerate(owned)
        ]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                while worker.is_alive():  # a join without a timeout would not hear an interrupt
                    worker.join(LOOK_S)
        finally:
            self.stop()
            end_s = time.monotonic() + JOIN_S
            for worker in workers:
                if worker.ident is not None:  # it was started
                    worker.join(max(0.0, end_s - time.monotonic()))
        if self._first_error is not None:
            raise self._first_error

    def stop(self) -> None:
        """End soon; episodes that are being played are given up and have no line."""
        self._stop.set()
        with self._lock:
            environments = list(self._environments)
        for environment in environments:
            environment.abort()
        for policy in self._policies.values():
            policy.abort()

    @contextmanager
    def open_environment(self) -> Iterator[ProcessEnvironment]:
        """Start one of the evaluation's environments. Raises EnvError."""
        source = self._evaluation.environment
        environment = ProcessEnvironment(source.name, source.options, self._timeouts, starts_now=False)
        with self._lock:
            self._environments.append(environment)
        if self._stop.is_set():  # `stop` may not have seen it
            environment.abort()
        try:
            self.insist(environment.start)
            yield environment
        finally:
            environment.close()

    def insist(self, touch: Callable[[], Found]) -> Found:
        """Return what a touch outside of episodes brings; if the environment dies of it, touch the next one.

        Raises EnvError when as many have died as an episode may cost.
        """
        met: Counter[str] = Counter()
        while True:
            try:
                return touch()
            except EnvLostError as error:  # noqa: PERF203  each may die
                if self._stop.is_set():  # it was ended on purpose
                    raise
                trouble = self._books.count(error, met)
                if met[trouble.kind] >= trouble.attempts:
                    raise

    # -- on their threads ----------------------------------------------------------------------------------

    def _work(self, environment: ProcessEnvironment | None) -> None:
        """Play episodes until none is due. environment: None for one of the thread's own."""
        try:
            with ExitStack() as stack:
                if environment is None:
                    environment = stack.enter_context(self.open_environment())
                while (key := self._take()) is not None:
                    self._play(environment, self._policies[key.condition.policy], key)
        except BaseException as error:
            with self._lock:
                is_end = self._stop.is_set()  # then its environment was ended on purpose
                if self._first_error is None and not is_end:
                    self._first_error = error
            self.stop()

    def _take(self) -> EpisodeKey | None:
        with self._lock:
            return None if self._stop.is_set() or not self._due else self._due.popleft()

    def _play(self, environment: ProcessEnvironment, policy: EvaluatedPolicy, key: EpisodeKey) -> None:
        def attempt(met: Counter[str]) -> Played:
            episode = self._begin(environment, policy, key)
            return Played(self._finish(episode, met), episode.ticks or (), episode.film)

        self._books.play(key, attempt, self._stop.is_set)

    def _finish(self, episode: Episode, met: Counter[str]) -> EpisodeResult:
        """Play an episode once. An error that counts as the policy's failure ends it; others are raised."""
        why = ""
        try:
            PLAY[episode.key.condition.mode](episode)
        except Exception as error:
            if not find_trouble(error).is_result:
                raise
            self._books.count(error, met)
            why = describe(error)
        return episode.finish(episode.environment.metrics(), why)

    def _begin(self, environment: ProcessEnvironment, policy: EvaluatedPolicy, key: EpisodeKey) -> Episode:
        spec = environment.spec
        view = PolicyView(spec, policy.spec)
        limit = self._evaluation.limit_steps(spec)
        return Episode(
            key,
            environment,
            view,
            policy.spec,
            policy.begin(key.seed),
            self._evaluation.robot,
            self._evaluation.path_of(key),
            limit,
            Film(environment, view.wanted, limit),
            ticks=None if self._books.saved is None else [],
            shows=() if self._books.saved is None else self._books.saved.wanted,
        )
