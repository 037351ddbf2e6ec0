# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Environment `recording`: a data set takes the place of a simulator, for open-loop errors.

Whatever a policy commands, it is shown what was recorded next; its actions are compared with the recorded
ones, tick by tick.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.bags.lerobot_dataset import EpisodeData, EpisodeEntry, LeRobotDatasetReader, RgbImage
from remote_inference.base.contract.action_kinds import MotionKind
from remote_inference.base.lerobot_format import STATE
from remote_inference.learn.environment import (
    ActionSpec,
    EnvError,
    EnvironmentObservation,
    EnvironmentSpec,
    Feature,
    FeatureKind,
    Metrics,
    Step,
    check_action,
)

TOLERANCE = 0.05
NO_CAMERA = (48, 64, 3)  # px
NO_UNIT = "no_unit"  # in names of numbers


class RecordedEnvironment:
    """Shows the episodes of a data set of LeRobot's version 3.0, one of the task's for each seed in turn."""

    def __init__(self, path: str, tolerance: float = TOLERANCE, kind: MotionKind = "position") -> None:
        """path: the data set's folder. tolerance: largest mean error of a success, in each unit of actions.

        kind: of the actions, which the data set does not have. Raises EnvError, DatasetError, DocumentError.
        """
        if not 0 < tolerance < np.inf:
            raise EnvError(f"recording: tolerance: found {tolerance}, expected a number above 0")
        self._data = data = LeRobotDatasetReader(Path(path))
        self._tolerance = tolerance
        self._by_unit: dict[str, list[int]] = {}  # places of the actions
        for action, unit in enumerate(data.action_units or ("",) * len(data.action_names)):
            self._by_unit.setdefault(unit or NO_UNIT, []).append(action)
        self._by_task: dict[str, list[EpisodeEntry]] = {}
        for place in data.episodes:
            self._by_task.setdefault(", ".join(place.tasks), []).append(place)
        lowest, endless = ((bound,) * len(data.action_names) for bound in (-np.inf, np.inf))
        self.spec = EnvironmentSpec(
            name="recording",
            control_rate_hz=data.fps,
            actions=ActionSpec(kind, data.action_names, lowest, endless, endless),
            state_names=data.state_names,
            features={
                STATE: Feature(FeatureKind.STATE, (len(data.state_names),)),
                **{key: Feature(FeatureKind.RGB, shape) for key, shape in data.cameras.items()},
            },
            tasks=tuple(self._by_task),
            episode_limit_s=max(place.length for place in data.episodes) / data.fps,
        )
        self._episode: EpisodeData | None = None
        self._wants_state = False
        self._pictures: dict[str, Iterator[RgbImage]] = {}
        self._shown: dict[str, RgbImage] = {}
        self._errors: list[NDArray[np.float64]] = []

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self.spec.check_task(task)
        self.spec.check_wanted(wanted)
        places = self._by_task[task]
        place = places[seed % len(places)]
        self._episode = self._data.read(place)
        self._wants_state = STATE in wanted
        self._pictures = {key: self._data.pictures(place, key) for key in wanted if key != STATE}
        self._errors = []
        return self._observe()

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        episode = self._episode
        if episode is None or len(self._errors) >= len(episode.actions):
            raise EnvError("recording: step: found no episode, or its end, expected a reset")
        recorded = episode.actions[len(self._errors)].astype(np.float64)
        error = np.abs(check_action(self.spec, action) - recorded)
        self._errors.append(error)
        worst = max(float(error[places].mean()) for places in self._by_unit.values())  # units have no mean
        is_over = len(self._errors) == len(episode.actions)
        return Step(self._observe(is_over=is_over), -worst, terminated=False, truncated=is_over)

    def metrics(self) -> Metrics:
        if not self._errors:
            return Metrics(False, {})
        errors = np.array(self._errors)
        values: dict[str, float] = {}
        means: list[float] = []
        for unit, places in self._by_unit.items():  # rad and m/s have no mean
            some, of = errors[:, places], f".{unit}" if len(self._by_unit) > 1 else ""
            means.append(float(some.mean()))
            values[f"action_error_mean{of}"] = means[-1]
            values[f"action_error_rms{of}"] = float(np.sqrt((some**2).mean()))
            values[f"action_error_max{of}"] = float(some.max())
        by_joint = zip(self.spec.actions.names, errors.mean(axis=0), strict=True)
        values |= {f"action_error.{name}": float(one) for name, one in by_joint}
        return Metrics(max(means) <= self._tolerance, values)

    def render(self) -> RgbImage:
        return next(iter(self._shown.values()), np.zeros(NO_CAMERA, np.uint8))

    def close(self) -> None:
        """Do nothing: files are closed when they have been read."""

    def _observe(self, *, is_over: bool = False) -> EnvironmentObservation:
        """Return what was recorded at the present tick; at the end, what was recorded last."""
        assert self._episode is not None
        tick = len(self._errors)
        if not is_over:
            self._shown = {key: next(pictures) for key, pictures in self._pictures.items()}
        values: dict[str, Any] = dict(self._shown)
        if self._wants_state:
            values[STATE] = self._episode.states[min(tick, len(self._episode.states) - 1)]
        return EnvironmentObservation(values, tick / self.spec.control_rate_hz)
