# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`--save`: each tick of the episodes that a run plays, as a data set of LeRobot's version 3.0.

A tick is what the environment has shown, and the action that was executed then. An episode is added when it
has ended, whole. The data set is complete when the run has ended, or was interrupted: one that was killed
leaves a folder without `meta/info.json`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from remote_inference.learn.environment import EnvironmentSpec, FeatureKind
from remote_inference.learn.environments.robot_contract import make_data_set_contract
from remote_inference.learn.evaluation.play import PlayedTick
from remote_inference.learn.evaluation.results import EpisodeResult
from remote_inference.learn.rollouts import saving
from remote_inference.learn.rollouts.saving import OutcomeDataSet, OutcomeTick, SavingError

EPISODES_FILE = "meta/evaluation.json"  # what LeRobot's own files have no place for


class SavedEpisodes(AbstractContextManager["SavedEpisodes"]):
    """A data set that any thread adds episodes to; a context manager."""

    def __init__(self, folder: Path, spec: EnvironmentSpec) -> None:
        """Begin a data set of an environment's episodes. Raises SavingError when the folder exists."""
        saving.require_new(folder)
        self._folder, self._spec = folder, spec
        features = spec.features
        self.cameras = tuple(name for name, one in features.items() if one.kind is FeatureKind.RGB)
        self.wanted = (spec.feature_of(FeatureKind.STATE), *self.cameras)
        self._lock = threading.Lock()
        self._is_broken = False
        self._episodes: list[dict[str, Any]] = []
        contract = make_data_set_contract(spec, spec.tasks[0], self.cameras)
        with self._writing():
            self._target = OutcomeDataSet(folder, contract)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Complete the files, unless an episode could not be written."""
        if self._is_broken:
            return
        with self._lock, self._writing():
            self._target.close()
            text = json.dumps({"episodes": self._episodes}, indent=1) + "\n"
            (self._folder / EPISODES_FILE).write_text(text, encoding="utf-8")

    def add(self, result: EpisodeResult, ticks: list[PlayedTick]) -> None:
        """Write an episode, unless it has no tick. Raises SavingError when that is impossible."""
        if not ticks:
            return
        with self._lock:
            try:
                with self._writing():
                    for tick in self._read(result, ticks):
                        self._target.add(tick)
                    self._target.end_episode()
            except BaseException:
                self._is_broken = True
                raise
            self._episodes.append(result.outcome)

    def _read(self, result: EpisodeResult, ticks: list[PlayedTick]) -> Iterator[OutcomeTick]:
        for number, one in enumerate(ticks):
            is_last = number == len(ticks) - 1
            yield OutcomeTick(
                **saving.describe_tick(self._spec, self.cameras, one.shown, one.action),
                tick=number,
                episode_id=len(self._episodes),
                task=result.task,
                session_id="",
                seq_id=0,
                step_index=0,
                policy_version=", ".join(result.policy_versions),
                own={
                    saving.REWARD: one.step.reward,
                    saving.DONE: is_last,
                    saving.SUCCESS: is_last and result.success,
                },
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Raise SavingError with the folder's name for an OSError."""
        try:
            yield
        except OSError as error:
            raise SavingError(f"{self._folder}: cannot be written: {error.strerror or error}") from error
