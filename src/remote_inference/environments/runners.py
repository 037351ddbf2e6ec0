# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runners decide which thread touches an environment, and how long a touch may take.

Simulators bind graphics to threads, and some want the main thread. A touch that takes too long ends in an
error with the environment's name; the environment counts as hung from then on, and its caller lives on.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.calls import Calls
from remote_inference.core.environment import (
    EnvError,
    Environment,
    EnvironmentObservation,
    Metrics,
    Moment,
    RealTimeEnvironment,
    Step,
    plain_metrics,
    require_promised,
)
from remote_inference.environments.real_time import in_real_time

Result = TypeVar("Result")
Make = Callable[[], Environment]


@dataclass(frozen=True)
class Timeouts:
    """How long a touch may take [s]. Making an environment loads a simulator and its assets."""

    make_s: float = 300.0
    reset_s: float = 60.0
    step_s: float = 10.0
    close_s: float = 10.0


class RunEnvironment:
    """An environment whose every touch goes through a queue to the thread that owns it.

    The thread that constructs it waits until the environment is made. Raises EnvError when that fails.
    """

    def __init__(self, name: str, make: Make, touches: Calls, timeouts: Timeouts | None = None) -> None:
        """name: for errors. touches: another thread serves them."""
        self._name = name
        self._touches = touches
        self._timeouts = timeouts or Timeouts()
        self._hung = ""
        self._wanted: tuple[str, ...] = ()
        try:
            self._environment = self._touch("make", make, self._timeouts.make_s)
        except EnvError:
            touches.close()
            raise
        self.spec = self._environment.spec

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        reset, self._wanted = self._environment.reset, tuple(wanted)
        shown = self._touch("reset", lambda: reset(seed, task, wanted), self._timeouts.reset_s)
        return require_promised(self.spec, self._wanted, shown)

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        step = self._touch("step", lambda: self._environment.step(action), self._timeouts.step_s)
        require_promised(self.spec, self._wanted, step.observation)
        with self._plain("step"):
            # Numbers of numpy pass for Python's here, and not in a ROS message or in JSON.
            reward, terminated, truncated = float(step.reward), bool(step.terminated), bool(step.truncated)
        return replace(step, reward=reward, terminated=terminated, truncated=truncated)

    def metrics(self) -> Metrics:
        metrics = self._touch("metrics", self._environment.metrics, self._timeouts.step_s)
        with self._plain("metrics"):
            return plain_metrics(metrics)

    @contextmanager
    def _plain(self, what: str) -> Iterator[None]:
        """Say that what an environment has returned is no number."""
        try:
            yield
        except (TypeError, ValueError, AttributeError) as error:
            raise EnvError(f"{self._name}: {what}: expected numbers and truth values: {error}") from error

    def render(self) -> NDArray[np.uint8]:
        return self._touch("render", self._environment.render, self._timeouts.step_s)

    def close(self) -> None:
        """Close the environment unless it hangs, and end its thread's service."""
        try:
            if not self._hung:
                self._touch("close", self._environment.close, self._timeouts.close_s)
        finally:
            self._touches.close()

    def _touch(self, what: str, call: Callable[[], Result], timeout_s: float) -> Result:
        if self._hung:
            raise EnvError(f"{self._name}: {what} refused: it hangs: {self._hung}")
        future = self._touches.submit(call)
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


class RunInRealTime(RunEnvironment):
    """The same for an environment that moves in real time."""

    _environment: RealTimeEnvironment

    _time_s = 0.0  # to which the environment has come

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self._time_s = 0.0
        return super().reset(seed, task, wanted)

    def advance(self, action: NDArray[np.floating[Any]], time_s: float) -> Moment:
        ticks = max(1, math.ceil((time_s - self._time_s) * self.spec.control_rate_hz))
        timeout_s = ticks * self._timeouts.step_s  # of each: a slow simulator does not hang
        moment = self._touch("advance", lambda: self._environment.advance(action, time_s), timeout_s)
        with self._plain("advance"):
            moment = Moment(float(moment.time_s), float(moment.reward), bool(moment.ended))
        self._time_s = moment.time_s
        return moment

    def observe(self) -> EnvironmentObservation:
        shown = self._touch("observe", self._environment.observe, self._timeouts.step_s)
        return require_promised(self.spec, self._wanted, shown)


def run_inline(name: str, make: Make, timeouts: Timeouts | None = None) -> Environment:
    """Make an environment that the calling thread touches itself; nothing bounds how long a touch takes."""
    del name, timeouts
    return make()


def run_on_thread(name: str, make: Make, timeouts: Timeouts | None = None) -> Environment:
    """Make an environment on a thread of its own. A thread that hangs does not keep the process alive."""
    touches = Calls()
    touches.start(f"environment_{name}")
    return RunEnvironment(name, make, touches, timeouts)


def run_in_real_time(name: str, make: Make, timeouts: Timeouts | None = None) -> RealTimeEnvironment:
    """Make an environment on a thread of its own, as `run_on_thread` does, and let it move in real time."""
    touches = Calls()
    touches.start(f"environment_{name}")
    return RunInRealTime(name, lambda: in_real_time(make()), touches, timeouts)


def run_on_main_thread(
    name: str, make: Make, work: Callable[[Environment], None], timeouts: Timeouts | None = None
) -> None:
    """Make an environment on the calling thread, which serves it until `work` returns on another thread.

    Raises what `work` raises.
    """
    touches = Calls()
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            environment = RunEnvironment(name, make, touches, timeouts)
            try:
                work(environment)
            finally:
                environment.close()
            outcome.set_result(None)
        except BaseException as error:
            outcome.set_exception(error)
        finally:
            touches.close()

    threading.Thread(target=run, name=f"work_on_{name}", daemon=True).start()
    touches.serve()
    outcome.result()
