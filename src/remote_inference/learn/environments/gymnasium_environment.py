# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Any registered environment of gymnasium, with a mapping file that names what gymnasium leaves unnamed."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat

from remote_inference.base.contract.action_kinds import MotionKind
from remote_inference.base.contract.fields import Name, Names, Positive
from remote_inference.base.documents.document import Document, load_document
from remote_inference.learn.environment import (
    ActionSpec,
    EnvError,
    EnvironmentObservation,
    EnvironmentSpec,
    Feature,
    FeatureKind,
    Metrics,
    MetricValue,
    Step,
    check_action,
    is_success,
)

if not os.environ.get("DISPLAY"):  # read by MuJoCo and SDL when a simulator is imported
    os.environ.setdefault("MUJOCO_GL", "egl")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

STATE = "observation.state"
WHOLE = "."  # in a mapping: the observation itself, where it is not a dictionary
REWARD = "reward"  # among the metrics: that of the last step, where `info` has no such number


class StateEntries(Document):
    """A vector of the observation that is part of the state."""

    key: Name
    """in the observation's dictionary, nested with `/`; `.`: all of it"""
    names: Names
    """of its entries, in order"""


class GymnasiumMapping(Document):
    """What a policy needs to know of an environment and gymnasium does not describe."""

    options: Mapping[str, Any] = {}
    """of gymnasium.make; `render_mode: rgb_array` is always given"""
    control_rate_hz: Positive
    """steps per second of the robot's time"""
    action_kind: MotionKind
    """what an action commands"""
    action_names: Names
    """entries of the action, in order"""
    action_limits: Mapping[str, tuple[FiniteFloat, FiniteFloat]] = {}
    """least and greatest value of an entry, by its name, where the action space has others than the
    environment takes"""
    state: Annotated[tuple[StateEntries, ...], Field(min_length=1)]
    """concatenated in this order"""
    images: Mapping[str, Name] = {}
    """policy's name of each camera, and its key in the observation; nested with `/`"""
    tasks: Names
    """what the policy is told; the first is the default"""
    success: Name
    """key of `info` that is true once the task is done"""
    metrics: tuple[Name, ...] = ()
    """keys of `info` that are numbers, read at the episode's end; `reward`: of its last step"""
    episode_limit_s: Positive
    """robot's time after which an episode ends"""


class GymnasiumEnvironment:
    """The environment that gymnasium knows by an id, or by `module:id`."""

    def __init__(self, gym_id: str, *, mapping: str) -> None:
        """Make it. mapping: path of a GymnasiumMapping. Raises EnvError, or DocumentError for the mapping."""
        self._path = Path(mapping)  # for errors
        self._mapping = load_document(mapping, GymnasiumMapping)
        try:
            self._gym = gymnasium.make(gym_id, render_mode="rgb_array", **self._mapping.options)
        except gymnasium.error.Error as error:
            raise EnvError(f"gymnasium:{gym_id}: {error}") from error
        self.spec = self._describe(gym_id)
        self._wanted: tuple[str, ...] = ()
        self._steps = 0
        self._success = False
        self._reward = 0.0
        self._info: Mapping[str, Any] = {}

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self.spec.check_task(task)
        self.spec.check_wanted(wanted)
        self._wanted = tuple(wanted)
        shown, self._info = self._gym.reset(seed=seed)
        self._steps, self._success, self._reward = 0, False, 0.0
        return self._observe(shown)

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        space = self._gym.action_space
        checked = check_action(self.spec, action).astype(space.dtype)
        bounds = self.spec.actions
        clipped = np.clip(checked, bounds.lower, bounds.upper).astype(space.dtype)
        shown, reward, terminated, truncated, self._info = self._gym.step(clipped)
        self._steps, self._reward = self._steps + 1, float(reward)
        self._success = self._success or is_success(self._info.get(self._mapping.success, False))
        observation = self._observe(shown)
        late = observation.time_s >= self.spec.episode_limit_s - 1e-9
        ended = bool(terminated) or self._success
        return Step(observation, self._reward, ended, not ended and (bool(truncated) or late))

    def metrics(self) -> Metrics:
        found = {REWARD: self._reward, **self._info}
        values: dict[str, MetricValue] = {}
        for key in self._mapping.metrics:
            if key in found:
                values[key] = float(found[key])
            elif self._steps:  # many compute them in a step alone: an episode may have none
                keys = ", ".join(map(str, self._info)) or "nothing"
                raise EnvError(f"{self._path}: metrics: found no {key} in info, which has {keys}")
        return Metrics(self._success, values)

    def render(self) -> NDArray[np.uint8]:
        picture = self._gym.render()
        if not isinstance(picture, np.ndarray):
            raise EnvError(f"{self.spec.name}: render: found {type(picture).__name__}, expected an array")
        return picture.astype(np.uint8, copy=False)

    def close(self) -> None:
        self._gym.close()

    def _observe(self, shown: Any) -> EnvironmentObservation:
        values: dict[str, NDArray[Any]] = {}
        for name in self._wanted:
            if name == STATE:
                parts = [self._find(shown, entries.key) for entries in self._mapping.state]
                values[name] = np.concatenate([np.ravel(part) for part in parts]).astype(np.float32)
            else:
                values[name] = np.ascontiguousarray(self._find(shown, self._mapping.images[name]))
        return EnvironmentObservation(values, self._steps / self.spec.control_rate_hz)

    def _describe(self, gym_id: str) -> EnvironmentSpec:
        mapping, space = self._mapping, self._gym.action_space
        if not isinstance(space, gymnasium.spaces.Box) or space.shape != (len(mapping.action_names),):
            expected = f"a Box of {len(mapping.action_names)} entries, as action_names has"
            raise EnvError(f"{self._path}: action_names: found the action space {space}, expected {expected}")
        sample = self._gym.observation_space.sample()
        for entries in mapping.state:
            found = np.size(self._find(sample, entries.key))
            if found != len(entries.names):
                raise EnvError(
                    f"{self._path}: state: {entries.key}: found {found} entries, expected one for "
                    f"each of the {len(entries.names)} names"
                )
        state_names = tuple(name for entries in mapping.state for name in entries.names)
        features = {STATE: Feature(FeatureKind.STATE, (len(state_names),))}
        for name, key in mapping.images.items():
            features[name] = Feature(FeatureKind.RGB, self._find(sample, key).shape)
        lower, upper = zip(*self._find_limits(space), strict=True)
        actions = ActionSpec(
            mapping.action_kind, mapping.action_names, lower, upper, (math.inf,) * len(mapping.action_names)
        )
        return EnvironmentSpec(
            name=f"gymnasium:{gym_id}",
            control_rate_hz=mapping.control_rate_hz,
            actions=actions,
            state_names=state_names,
            features=features,
            tasks=mapping.tasks,
            episode_limit_s=mapping.episode_limit_s,
        )

    def _find_limits(self, space: gymnasium.spaces.Box) -> list[tuple[float, float]]:
        names, limits = self._mapping.action_names, self._mapping.action_limits
        for name, (low, high) in limits.items():
            if name not in names or low >= high:
                raise EnvError(
                    f"{self._path}: action_limits: found {name}: [{low:g}, {high:g}], expected a name of "
                    "action_names, the least and the greatest value"
                )
        found = zip(map(float, space.low), map(float, space.high), strict=True)
        return [limits.get(name, bounds) for name, bounds in zip(names, found, strict=True)]

    def _find(self, shown: Any, key: str) -> NDArray[Any]:
        found = shown
        for part in () if key == WHOLE else key.split("/"):
            if not isinstance(found, Mapping) or part not in found:
                has = ", ".join(map(str, found)) if isinstance(found, Mapping) else type(found).__name__
                raise EnvError(f"{self._path}: {key}: found no {part} in the observation, which has {has}")
            found = found[part]
        return np.asarray(found)
