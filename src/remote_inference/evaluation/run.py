# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs an evaluation: every episode that is not there yet.

An error of the environment, the network or a policy costs at most its own episode and is counted by kind. An
episode that could not be played has no line; the next run plays it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from remote_inference.core.environment import EnvironmentSpec
from remote_inference.environments.process_environment import ProcessEnvironment
from remote_inference.environments.runners import Timeouts
from remote_inference.errors import UserError
from remote_inference.evaluation.blinding import mix
from remote_inference.evaluation.books import Books, Tally, Tell
from remote_inference.evaluation.document import REAL_TIME, EpisodeKey, Evaluation
from remote_inference.evaluation.preparation import check_robots, check_versions, open_policies
from remote_inference.evaluation.real_time import RealTimeEpisodes
from remote_inference.evaluation.results import ResultsFolder
from remote_inference.evaluation.workers import Workers

if TYPE_CHECKING:
    from remote_inference.evaluation.saving import SavedEpisodes  # imports pyarrow


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
    """One run of an evaluation. `stop` is for any thread."""

    def __init__(
        self,
        evaluation: Evaluation,
        home: Path,
        folder: ResultsFolder,
        *,
        shard: Shard | None = None,
        timeouts: Timeouts | None = None,
        tell: Tell | None = None,
        save: Callable[[EnvironmentSpec], SavedEpisodes] | None = None,
    ) -> None:
        """home: folder of the document, to which its paths are relative. tell: takes each episode's end.

        save: begins a data set of the episodes that this run plays. Raises UserError where it cannot.
        """
        if save is not None and REAL_TIME in evaluation.modes:
            raise UserError(f"--save: found the mode {REAL_TIME}, expected others: record a bag of that one")
        self._evaluation, self._home = evaluation, home
        self._shard = shard or Shard()
        self._save = save
        self._books = Books(folder, tell)
        self._workers = Workers(evaluation, self._books, timeouts)
        self._stop = threading.Event()

    @property
    def tally(self) -> Tally:
        return self._books.tally

    def run(self) -> Tally:
        """Play what is due, the episodes in real time last; those are for the main thread, as signals are.

        Raises UserError when nothing can be played, ResultsError when a result cannot be kept.
        """
        with self._workers.open_environment() as environment:
            spec = environment.spec
            for task in self._evaluation.tasks:
                spec.check_task(task)
            keys = self._shard.pick(self._evaluation.keys(spec.tasks[0]))
            due = [key for key in keys if key not in self._books.folder.results]
            due = mix(due) if self._evaluation.blind else due
            real = [key for key in due if key.condition.mode == REAL_TIME]
            virtual = [key for key in due if key.condition.mode != REAL_TIME]
            if virtual:
                self._play_in_virtual_time(virtual, environment)
        if real:
            RealTimeEpisodes(self._evaluation, self._home, spec, self._books, self._stop).play(real)
        return self.tally

    def stop(self) -> None:
        """End the run soon; episodes that are being played are given up and have no line."""
        self._stop.set()
        self._workers.stop()

    def _play_in_virtual_time(self, keys: Sequence[EpisodeKey], environment: ProcessEnvironment) -> None:
        with ExitStack() as stack:
            policies = stack.enter_context(open_policies(self._evaluation, self._home, environment.spec))
            check_versions(policies, self._books.folder)
            check = partial(check_robots, self._evaluation, policies, environment)
            self.tally.warnings = self._workers.insist(check)
            if self._save is not None:
                self._books.saved = stack.enter_context(self._save(environment.spec))
            self._workers.play(keys, environment, policies)
