# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The messages between an environment's process and its owner, as msgpack over pipes.

Pipes are read with a deadline. Nothing is unpickled: an environment is other people's code.
"""

from __future__ import annotations

import os
import select
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from remote_inference.learn.environment import (
    ActionSpec,
    EnvError,
    Environment,
    EnvironmentObservation,
    EnvironmentSpec,
    Feature,
    FeatureKind,
    Metrics,
    Step,
)
from remote_inference.learn.environments.policy_view import Actions, execute_actions
from remote_inference.server.frameworks.openpi import pack, unpack_map

MAX_FRAME_BYTES = 1 << 28  # of an observation: a dozen cameras with depth
_HEAD = struct.Struct("<I")


class PipeClosedError(Exception):
    """The other process has ended."""


def write_frame(pipe: int, message: Mapping[str, Any]) -> None:
    """Write a message to a file descriptor. Raises PipeClosedError when nobody reads any more."""
    data = pack(message)
    frame = memoryview(_HEAD.pack(len(data)) + data)
    try:
        while frame:
            frame = frame[os.write(pipe, frame) :]
    except (BrokenPipeError, OSError) as error:
        raise PipeClosedError from error


def read_frame(pipe: int, timeout_s: float | None = None) -> dict[str, Any]:
    """Return the next message of a file descriptor.

    Raises TimeoutError when it does not come whole in time, PipeClosedError at the end, WireError when it
    cannot be read.
    """
    end_s = None if timeout_s is None else time.monotonic() + timeout_s
    (length,) = _HEAD.unpack(_read(pipe, _HEAD.size, end_s))
    return unpack_map(_read(pipe, min(length, MAX_FRAME_BYTES), end_s), MAX_FRAME_BYTES)


def _read(pipe: int, length: int, end_s: float | None) -> bytes:
    parts: list[bytes] = []
    while length:
        left_s = None if end_s is None else end_s - time.monotonic()
        if left_s is not None and (left_s <= 0 or not select.select([pipe], [], [], left_s)[0]):
            raise TimeoutError
        part = os.read(pipe, min(length, 1 << 20))
        if not part:
            raise PipeClosedError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def spec_to_map(spec: EnvironmentSpec) -> dict[str, Any]:
    """Return a specification as plain values."""
    features = {
        name: [feature.kind.value, feature.shape, feature.meaning] for name, feature in spec.features.items()
    }
    return {**vars(spec), "actions": vars(spec.actions), "features": features}


def spec_from_map(found: Mapping[str, Any]) -> EnvironmentSpec:
    """Return the specification that `spec_to_map` has written."""
    features = {
        name: Feature(FeatureKind(kind), tuple(shape), meaning)
        for name, (kind, shape, meaning) in found["features"].items()
    }
    actions = ActionSpec(**_with_tuples(found["actions"]))
    return EnvironmentSpec(**{**_with_tuples(found), "actions": actions, "features": features})


def _with_tuples(found: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}


def observation_to_map(observation: EnvironmentObservation) -> dict[str, Any]:
    return {"values": dict(observation.values), "time_s": observation.time_s}


def observation_from_map(found: Mapping[str, Any]) -> EnvironmentObservation:
    return EnvironmentObservation(found["values"], found["time_s"])


def step_to_map(step: Step) -> dict[str, Any]:
    return {
        **observation_to_map(step.observation),
        "reward": float(step.reward),
        "terminated": bool(step.terminated),
        "truncated": bool(step.truncated),
    }


def step_from_map(found: Mapping[str, Any]) -> Step:
    return Step(observation_from_map(found), found["reward"], found["terminated"], found["truncated"])


def metrics_to_map(metrics: Metrics) -> dict[str, Any]:
    return {"success": bool(metrics.success), "values": dict(metrics.values)}


def metrics_from_map(found: Mapping[str, Any]) -> Metrics:
    return Metrics(found["success"], found["values"])


# -- What is done with the environment of a leased slot: in this process, or packed for a holder elsewhere


@dataclass(frozen=True)
class Touch:
    """One call on a slot's environment. kind: one of KINDS, which decides the fields in use.

    actions: `[n, A]` of the environment, executed one after another.
    """

    kind: str
    seed: int = 0
    task: str = ""
    wanted: Sequence[str] = ()
    actions: Actions = field(default_factory=lambda: np.empty(0))

    def run(self, environment: Environment) -> Any:
        """Return what the environment shows: an observation, steps, metrics or a picture. Raises EnvError."""
        if self.kind not in KINDS:
            raise EnvError(f"touch: found {self.kind!r}, expected one of {', '.join(KINDS)}")
        return KINDS[self.kind].run(environment, self)

    def run_packed(self, environment: Environment) -> bytes:
        """Return what the environment shows as a frame for `read`. Raises EnvError."""
        shown = self.run(environment)
        frame = pack(KINDS[self.kind].to_map(shown))
        if len(frame) > MAX_FRAME_BYTES:
            raise EnvError(
                f"{environment.spec.name}: {self.kind}: found an answer of {len(frame)} bytes, expected "
                f"{MAX_FRAME_BYTES} at most: execute fewer actions at a time"
            )
        return frame

    def read(self, frame: bytes) -> Any:
        """Return what `run_packed` has packed. Raises WireError, KeyError, TypeError or ValueError."""
        return KINDS[self.kind].from_map(unpack_map(frame, MAX_FRAME_BYTES))


class _Kind(NamedTuple):
    run: Callable[[Environment, Touch], Any]
    to_map: Callable[[Any], dict[str, Any]]
    from_map: Callable[[Mapping[str, Any]], Any]


def _execute(environment: Environment, touch: Touch) -> list[Step]:
    columns, found = len(environment.spec.actions.names), touch.actions.size
    if found % columns:
        raise EnvError(f"{environment.spec.name}: found {found} actions, expected rows of {columns}")
    return execute_actions(environment.step, touch.actions.reshape(-1, columns))


KINDS: Mapping[str, _Kind] = {
    "reset": _Kind(
        lambda environment, touch: environment.reset(touch.seed, touch.task, touch.wanted),
        observation_to_map,
        observation_from_map,
    ),
    "execute": _Kind(
        _execute,
        lambda steps: {"steps": [step_to_map(step) for step in steps]},
        lambda found: [step_from_map(step) for step in found["steps"]],
    ),
    "metrics": _Kind(lambda environment, _: environment.metrics(), metrics_to_map, metrics_from_map),
    "render": _Kind(
        lambda environment, _: environment.render(),
        lambda picture: {"picture": picture},
        lambda found: found["picture"],
    ),
}
