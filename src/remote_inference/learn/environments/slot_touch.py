# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is done with the environment of a leased slot: in this process, or packed for a holder elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from remote_inference.learn.environment import EnvError, Environment, Step
from remote_inference.learn.environments.policy_view import Actions, execute_actions
from remote_inference.learn.environments.process_frames import (
    MAX_FRAME_BYTES,
    metrics_from_map,
    metrics_to_map,
    observation_from_map,
    observation_to_map,
    step_from_map,
    step_to_map,
)
from remote_inference.server.frameworks.openpi import pack, unpack_map


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
    return execute_actions(environment, touch.actions.reshape(-1, columns))


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
