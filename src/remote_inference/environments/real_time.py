# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Lets environments that only take steps move in real time: one for each control period that has passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.environment import (
    EnvError,
    Environment,
    EnvironmentObservation,
    Metrics,
    Moment,
    RealTimeEnvironment,
    Step,
)

ROUNDING_S = 1e-9


def in_real_time(environment: Environment) -> RealTimeEnvironment:
    """Return an environment that moves in real time: itself, if it can by itself."""
    return environment if isinstance(environment, RealTimeEnvironment) else StepByStep(environment)


class StepByStep:
    """An environment whose commands count from the next control tick on; after its end it stands still."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.spec = environment.spec
        self._ticks = 0
        self._moment = Moment()
        self._shown: EnvironmentObservation | None = None

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self._shown = None
        self._shown = self._environment.reset(seed, task, wanted)
        self._ticks, self._moment = 0, Moment()
        return self._shown

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        step = self._environment.step(action)
        self._ticks += 1
        self._shown = step.observation
        time_s = self._ticks / self.spec.control_rate_hz
        self._moment = Moment(time_s, self._moment.reward + step.reward, step.ended)
        return step

    def advance(self, action: NDArray[np.floating[Any]], time_s: float) -> Moment:
        while not self._moment.ended and self._next_tick_s <= time_s + ROUNDING_S:
            self.step(action)
        return self._moment

    def observe(self) -> EnvironmentObservation:
        if self._shown is None:
            raise EnvError(f"{self.spec.name}: observe: found no episode, expected reset before")
        return self._shown

    def metrics(self) -> Metrics:
        return self._environment.metrics()

    def render(self) -> NDArray[np.uint8]:
        return self._environment.render()

    def close(self) -> None:
        self._environment.close()

    @property
    def _next_tick_s(self) -> float:
        return (self._ticks + 1) / self.spec.control_rate_hz
