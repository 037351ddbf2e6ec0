# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An environment without a simulator: a slider on a line, done when it is beyond its goal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

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

STATE, TOP = "observation.state", "observation.images.top"
GOAL = 0.9


class Line:
    """Position actions move the slider at once. The seed is where it starts, in hundredths."""

    def __init__(
        self,
        kind: Literal["position", "velocity", "effort"] = "position",
        rate_hz: float = 100.0,
        image: tuple[int, int, int] = (2, 3, 3),
    ):
        self._image = image
        self.spec = EnvironmentSpec(
            name="line",
            control_rate_hz=rate_hz,
            actions=ActionSpec(kind, ("x",), (-1.0,), (1.0,), (1.0,)),
            state_names=("x",),
            features={
                STATE: Feature(FeatureKind.STATE, (1,)),
                TOP: Feature(FeatureKind.RGB, image),
                "observation.depth": Feature(FeatureKind.DEPTH, (2, 3)),
            },
            tasks=("slide", "slide back"),
            episode_limit_s=1e6,
        )
        self.actions: list[float] = []
        self.closed = False
        self._wanted: Sequence[str] = ()
        self._x = 0.0

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self.spec.check_task(task)
        self.spec.check_wanted(wanted)
        self._wanted, self._x = wanted, seed / 100
        self.actions.clear()
        return self._observe()

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        (target,) = check_action(self.spec, action)
        if target == -0.5:
            raise EnvError("line: the slider jams at -0.5")
        self.actions.append(round(float(target), 6))
        self._x = float(target)
        done = self._x > GOAL
        return Step(self._observe(), float(done), terminated=done, truncated=False)

    def metrics(self) -> Metrics:
        return Metrics(self._x > GOAL, {"x": self._x})

    def render(self) -> NDArray[np.uint8]:
        return np.zeros(self._image, np.uint8)

    def close(self) -> None:
        self.closed = True

    def _observe(self) -> EnvironmentObservation:
        values = {STATE: np.array([self._x], np.float32), TOP: np.zeros(self._image, np.uint8)}
        return EnvironmentObservation({name: values[name] for name in self._wanted}, 0.0)
