# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The interface of an environment: a robot and its task, simulated or recorded, that a policy can attempt.

Nothing here knows ROS or a simulator. An environment computes its own metrics; others only read them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remote_inference.base.contract.action_kinds import MotionKind
from remote_inference.base.documents.problems import show_value
from remote_inference.base.errors import UserError

MetricValue = float | int | bool
Values = Mapping[str, NDArray[Any]]


class EnvError(UserError):
    """An environment cannot be made, reset or stepped; the message names the environment."""


class EnvLostError(EnvError):
    """The process of an environment died, hung or sent an unreadable answer: another one may do better."""


class NotFiniteError(EnvError):
    """An environment shows NaN or infinity: the same actions would lead there again."""


class FeatureKind(str, Enum):
    """What a feature of an observation shows. FORMS has the type and shape of each kind."""

    STATE = "state"
    QPOS = "qpos"
    QVEL = "qvel"
    QACC = "qacc"
    RGB = "rgb"
    DEPTH = "depth"
    SEGMENTATION = "segmentation"
    ROBOT_MASK = "robot_mask"
    INTRINSICS = "intrinsics"
    EXTRINSICS = "extrinsics"
    POINT_CLOUD = "point_cloud"


@dataclass(frozen=True)
class Form:
    """Type and shape of a kind of feature. A letter in `axes` is a length of each feature's own."""

    dtype: type[np.generic]
    axes: tuple[str | int, ...]
    unit: str = ""


FORMS: Mapping[FeatureKind, Form] = {
    FeatureKind.STATE: Form(np.float32, ("S",), "of each entry"),
    FeatureKind.QPOS: Form(np.float64, ("J",), "rad or m"),
    FeatureKind.QVEL: Form(np.float64, ("J",), "rad/s or m/s"),
    FeatureKind.QACC: Form(np.float64, ("J",), "rad/s^2 or m/s^2"),
    FeatureKind.RGB: Form(np.uint8, ("H", "W", 3)),
    FeatureKind.DEPTH: Form(np.float32, ("H", "W"), "m"),
    FeatureKind.SEGMENTATION: Form(np.int32, ("H", "W")),
    FeatureKind.ROBOT_MASK: Form(np.uint8, ("H", "W"), "0 or 1"),
    FeatureKind.INTRINSICS: Form(np.float32, (3, 3), "px"),
    FeatureKind.EXTRINSICS: Form(np.float32, (4, 4), "m"),
    FeatureKind.POINT_CLOUD: Form(np.float32, ("N", 3), "m"),
}
MEANINGS: Mapping[FeatureKind, tuple[str, ...]] = {
    FeatureKind.SEGMENTATION: ("instance", "semantic"),
    FeatureKind.EXTRINSICS: ("camera_to_world", "world_to_camera"),
    FeatureKind.POINT_CLOUD: ("world", "camera"),
}
"""What values of a kind may mean; a feature of these kinds names one."""
UNSEEN = (FeatureKind.DEPTH, FeatureKind.POINT_CLOUD)  # in which NaN or infinity means: nothing is seen there


@dataclass(frozen=True)
class Feature:
    """One array of an observation.

    shape: without axes for batches; an axis of None has a length of its own in each observation. meaning: one
    of MEANINGS where the kind has some: the segments' ids, the direction of a transform, a cloud's frame.
    Raises EnvError when shape or meaning do not fit the kind.
    """

    kind: FeatureKind
    shape: tuple[int | None, ...]
    meaning: str = ""

    def __post_init__(self) -> None:
        axes, meanings = FORMS[self.kind].axes, MEANINGS.get(self.kind, ("",))
        fits = len(self.shape) == len(axes) and all(
            not isinstance(axis, int) or length == axis for axis, length in zip(axes, self.shape, strict=True)
        )
        if not fits:
            expected = ", ".join(map(str, axes))
            raise EnvError(f"{self.kind.value}: found shape {list(self.shape)}, expected [{expected}]")
        if self.meaning not in meanings:
            expected = " or ".join(map(repr, meanings))
            raise EnvError(f"{self.kind.value}: found meaning {self.meaning!r}, expected {expected}")


@dataclass(frozen=True)
class ActionSpec:
    """The action vector `[A]` of one control tick, in the order of `names`.

    lower, upper: bounds `[A]`, in the actions' units; max_velocity: bound on the change of a command
    [unit/s], infinite where there is none.
    """

    kind: MotionKind
    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    max_velocity: tuple[float, ...]


@dataclass(frozen=True)
class EnvironmentSpec:
    """What an environment offers. `features` has every feature that it can build, by the policy's names.

    state_names: entries of the feature of kind STATE. tasks: what may be asked for; the first is the default.
    episode_limit_s: time after which an episode is truncated.
    """

    name: str
    control_rate_hz: float
    actions: ActionSpec
    state_names: tuple[str, ...]
    features: Mapping[str, Feature]
    tasks: tuple[str, ...]
    episode_limit_s: float

    def feature_of(self, kind: FeatureKind) -> str:
        """Return the name of the only feature of a kind. Raises EnvError without or with several."""
        names = [name for name, feature in self.features.items() if feature.kind is kind]
        if len(names) != 1:
            raise EnvError(f"{self.name}: found {len(names)} features of kind {kind.value}, expected 1")
        return names[0]

    def check_wanted(self, wanted: Sequence[str]) -> None:
        """Raise EnvError for features that the environment cannot build."""
        if unknown := [name for name in wanted if name not in self.features]:
            found, expected = ", ".join(unknown), ", ".join(self.features)
            raise EnvError(f"{self.name}: asked for {found}, which it does not show; expected of {expected}")

    def check_task(self, task: str) -> None:
        """Raise EnvError for a task that the environment does not have."""
        if task not in self.tasks:
            expected = " or ".join(map(repr, self.tasks))
            raise EnvError(f"{self.name}: found task {task!r}, expected {expected}")


@dataclass(frozen=True)
class EnvironmentObservation:
    """What an environment shows after a reset or a step: the arrays that were asked for, by feature."""

    values: Values
    time_s: float  # of the environment, since the reset


@dataclass(frozen=True)
class Step:
    """The outcome of one control tick.

    terminated: the task has ended, in success or failure. truncated: the episode was cut off.
    """

    observation: EnvironmentObservation
    reward: float
    terminated: bool
    truncated: bool

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated


@dataclass(frozen=True)
class Metrics:
    """What an environment has computed about its episode; `success` is part of it."""

    success: bool
    values: Mapping[str, MetricValue] = field(default_factory=dict)


def plain_metrics(metrics: Metrics) -> Metrics:
    """Return metrics in Python's own numbers: numpy's pass for these, but not in a message or in JSON.

    Raises TypeError or ValueError for what is neither a number nor a truth value.
    """
    values = {str(name): _plain(value) for name, value in metrics.values.items()}
    return Metrics(is_success(metrics.success), values)


def is_success(value: Any) -> bool:
    """Return whether an environment says that an episode succeeded: NaN is no success."""
    return bool(value) and math.isfinite(value)


def _plain(value: Any) -> MetricValue:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    return int(value) if isinstance(value, (int, np.integer)) else float(value)


class Environment(Protocol):
    """One robot with one task at a time.

    One thread makes an environment and calls all its methods, unless a runner owns the thread: simulators
    bind graphics to threads.
    """

    spec: EnvironmentSpec

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        """Begin an episode, a function of seed and task alone; show the wanted features from now on.

        Features that are not wanted are not built. Raises EnvError for an unknown task or feature.
        """

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        """Apply an action `[A]` for one control period. Raises EnvError when it cannot be applied."""

    def metrics(self) -> Metrics:
        """Return what the environment has computed about the episode so far."""

    def render(self) -> NDArray[np.uint8]:
        """Return a picture of the present for people, RGB `[height, width, 3]`."""

    def close(self) -> None:
        """Free what the environment holds; safe to call again."""


@dataclass(frozen=True)
class Moment:
    """The progress of an episode. time_s: of the environment, since the reset. reward: the sum so far."""

    time_s: float = 0.0
    reward: float = 0.0
    ended: bool = False


@runtime_checkable
class RealTimeEnvironment(Environment, Protocol):
    """An environment that can be stopped between control ticks: commands count when they come."""

    def advance(self, action: NDArray[np.floating[Any]], time_s: float) -> Moment:
        """Hold an action `[A]` until the environment's time has come to `time_s`. Raises EnvError."""

    def observe(self) -> EnvironmentObservation:
        """Return what the environment shows now, of the wanted features."""


def require_promised(
    spec: EnvironmentSpec, wanted: Sequence[str], observation: EnvironmentObservation, reward: float = 0.0
) -> EnvironmentObservation:
    """Return an environment's observation. reward: of the step that has led to it.

    Raises EnvError for what the specification does not promise, NotFiniteError for NaN or infinity.
    """
    shown = list(observation.values)
    if set(shown) != set(wanted):
        found, asked = ", ".join(shown) or "nothing", ", ".join(wanted) or "none"
        raise EnvError(f"{spec.name}: shows {found}; asked for {asked}")
    for name in wanted:
        value, feature = observation.values[name], spec.features[name]
        dtype = np.dtype(FORMS[feature.kind].dtype)
        if not isinstance(value, np.ndarray) or value.dtype != dtype:
            kind = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
            raise EnvError(f"{spec.name}: {name}: found {kind}, expected an array of {dtype}")
        fits = value.ndim == len(feature.shape) and all(
            length is None or length == present
            for length, present in zip(feature.shape, value.shape, strict=True)
        )
        if not fits:
            shape, expected = list(value.shape), list(feature.shape)
            raise EnvError(f"{spec.name}: {name}: found shape {shape}, expected {expected}")
        if dtype.kind == "f" and feature.kind not in UNSEEN:
            require_finite(spec, name, value, observation.time_s)
    require_finite(spec, "time_s", observation.time_s, observation.time_s)
    require_finite(spec, "reward", float(reward), observation.time_s)
    return observation


def require_finite(spec: EnvironmentSpec, what: str, value: ArrayLike, time_s: float) -> None:
    """Raise NotFiniteError for NaN or infinity in a number or an array. time_s: of the environment."""
    entries = np.ravel(value)
    places = np.flatnonzero(~np.isfinite(entries))
    if len(places):
        entry = f"[{places[0]}]" if len(entries) > 1 else ""
        found = f"{what}{entry} at {time_s:g} s: found {entries[places[0]]}"
        raise NotFiniteError(f"{spec.name}: {found}, expected finite values")


def action_that_holds(spec: EnvironmentSpec, state: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the action `[A]` that keeps a robot where it is, as far as its state `[S]` shows it."""
    actions = spec.actions
    if actions.kind != "position":
        return np.zeros(len(actions.names))
    known = dict(zip(spec.state_names, state, strict=True))
    positions = [float(known.get(name, 0.0)) for name in actions.names]
    return np.clip(positions, actions.lower, actions.upper)


def check_action(spec: EnvironmentSpec, action: object) -> NDArray[np.float64]:
    """Return an action as float64 `[A]`. Raises EnvError for another shape or a value not finite."""
    try:
        found = np.asarray(action, np.float64)
    except (TypeError, ValueError) as error:
        shown = show_value(action)
        raise EnvError(f"{spec.name}: action: found {shown}, expected an array of numbers") from error
    expected = len(spec.actions.names)
    if found.shape != (expected,):
        raise EnvError(f"{spec.name}: action: found shape {list(found.shape)}, expected [{expected}]")
    if not np.isfinite(found).all():
        raise EnvError(f"{spec.name}: action: found {found.tolist()}, expected finite values")
    return found
