# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs an environment on a thread of its own, and limits how long each call may take.

Simulators bind graphics to threads. A call that takes too long raises an error with the environment's name;
the environment counts as hung from then on, and its caller goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.calls import Calls
from remote_inference.learn.environment import (
    EnvError,
    Environment,
    EnvironmentObservation,
    Metrics,
    Moment,
    RealTimeEnvironment,
    Step,
    plain_metrics,
    require_finite,
    require_promised,
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
        while not self._moment.ended and (self._ticks + 1) / self.spec.control_rate_hz <= time_s + ROUNDING_S:
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


Result = TypeVar("Result")
Make = Callable[[], Environment]


@dataclass(frozen=True)
class Timeouts:
    """How long a call may take [s]. Making an environment loads a simulator and its assets."""

    make_s: float = 300.0
    reset_s: float = 60.0
    step_s: float = 10.0
    close_s: float = 10.0


class ThreadEnvironment:
    """An environment whose every call goes through a queue to the thread that owns it.

    The thread that constructs it waits until the environment is made. Raises EnvError when that fails. A
    thread that hangs does not keep the process alive.
    """

    def __init__(self, name: str, make: Make, timeouts: Timeouts | None = None) -> None:
        """name: for errors, and of the thread."""
        self._name = name
        self._calls = Calls()
        self._calls.start(f"environment_{name}")
        self._timeouts = timeouts or Timeouts()
        self._hung = ""
        self._wanted: tuple[str, ...] = ()
        try:
            self._environment = self._call("make", make, self._timeouts.make_s)
        except EnvError:
            self._calls.close()
            raise
        self.spec = self._environment.spec

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        reset, self._wanted = self._environment.reset, tuple(wanted)
        shown = self._call("reset", lambda: reset(seed, task, wanted), self._timeouts.reset_s)
        return require_promised(self.spec, self._wanted, shown)

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        step = self._call("step", lambda: self._environment.step(action), self._timeouts.step_s)
        with self._plain("step"):
            require_promised(self.spec, self._wanted, step.observation, step.reward)
            # Numbers of numpy pass for Python's here, and not in a ROS message or in JSON.
            reward, terminated, truncated = float(step.reward), bool(step.terminated), bool(step.truncated)
        return replace(step, reward=reward, terminated=terminated, truncated=truncated)

    def metrics(self) -> Metrics:
        metrics = self._call("metrics", self._environment.metrics, self._timeouts.step_s)
        with self._plain("metrics"):
            return plain_metrics(metrics)

    @contextmanager
    def _plain(self, what: str) -> Iterator[None]:
        """Raise EnvError where an environment has returned no number."""
        try:
            yield
        except (TypeError, ValueError, AttributeError) as error:
            raise EnvError(f"{self._name}: {what}: expected numbers and truth values: {error}") from error

    def render(self) -> NDArray[np.uint8]:
        return self._call("render", self._environment.render, self._timeouts.step_s)

    def close(self) -> None:
        """Close the environment unless it hangs, and end its thread's service."""
        try:
            if not self._hung:
                self._call("close", self._environment.close, self._timeouts.close_s)
        finally:
            self._calls.close()

    def _call(self, what: str, call: Callable[[], Result], timeout_s: float) -> Result:
        if self._hung:
            raise EnvError(f"{self._name}: {what} refused: it hangs: {self._hung}")
        future = self._calls.submit(call)
        try:
            return future.result(timeout_s)
        except FutureTimeoutError as error:
            if future.done():  # the environment itself has raised it
                raise EnvError(f"{self._name}: {what}: {type(error).__name__}: {error}") from error
            self._hung = f"{what} took longer than {timeout_s:g} s"
            raise EnvError(f"{self._name}: {self._hung}") from error
        except EnvError:
            raise
        except Exception as error:  # a simulator may raise anything
            raise EnvError(f"{self._name}: {what}: {type(error).__name__}: {error}") from error


class RealTimeThreadEnvironment(ThreadEnvironment):
    """The same for an environment that is let move in real time."""

    _environment: RealTimeEnvironment

    def __init__(self, name: str, make: Make, timeouts: Timeouts | None = None) -> None:
        super().__init__(name, lambda: in_real_time(make()), timeouts)
        self._time_s = 0.0  # to which the environment has come

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self._time_s = 0.0
        return super().reset(seed, task, wanted)

    def advance(self, action: NDArray[np.floating[Any]], time_s: float) -> Moment:
        ticks = max(1, math.ceil((time_s - self._time_s) * self.spec.control_rate_hz))
        timeout_s = ticks * self._timeouts.step_s  # of each: a slow simulator does not hang
        moment = self._call("advance", lambda: self._environment.advance(action, time_s), timeout_s)
        with self._plain("advance"):
            moment = Moment(float(moment.time_s), float(moment.reward), bool(moment.ended))
        require_finite(self.spec, "time_s", moment.time_s, moment.time_s)
        require_finite(self.spec, "reward", moment.reward, moment.time_s)
        self._time_s = moment.time_s
        return moment

    def observe(self) -> EnvironmentObservation:
        shown = self._call("observe", self._environment.observe, self._timeouts.step_s)
        return require_promised(self.spec, self._wanted, shown)
