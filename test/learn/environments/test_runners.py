# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which thread touches an environment, and what a touch that fails or never returns costs its caller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from remote_inference.learn.environment import (
    ActionSpec,
    EnvError,
    Environment,
    EnvironmentObservation,
    EnvironmentSpec,
    Metrics,
    Moment,
    NotFiniteError,
    Step,
    plain_metrics,
)
from remote_inference.learn.environments.runners import (
    RealTimeThreadEnvironment,
    ThreadEnvironment,
    Timeouts,
)

SPEC = EnvironmentSpec(
    "room", 10.0, ActionSpec("position", ("x",), (-1.0,), (1.0,), (1.0,)), (), {}, ("go",), 1.0
)
ACTION = np.zeros(1)
SHORT = Timeouts(make_s=0.1, reset_s=0.1, step_s=0.1, close_s=0.1)
LONG = Timeouts(make_s=30.0, reset_s=30.0, step_s=30.0, close_s=30.0)


def test_nan_is_no_success_and_numbers_of_numpy_become_python_s() -> None:
    found = plain_metrics(Metrics(np.float32("nan"), {"distance": np.float32("nan"), "grasped": np.True_}))
    assert found.success is False
    assert isinstance(found.values["distance"], float)
    assert found.values["grasped"] is True
    assert plain_metrics(Metrics(np.float64(1.0))).success is True


class Room:
    """Notes the thread of every touch; hangs or fails when told to."""

    spec = SPEC

    def __init__(self) -> None:
        self.touched_by = [threading.get_ident()]
        self.released = threading.Event()
        self.hangs = False
        self.closed = False
        self.shown: dict[str, Any] = {}

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self.touched_by.append(threading.get_ident())
        if task == "fail":
            raise ValueError("no such shelf")
        return EnvironmentObservation(self.shown, 0.0)

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        self.touched_by.append(threading.get_ident())
        if self.hangs:
            self.released.wait(60.0)
        return Step(EnvironmentObservation(self.shown, 0.1), 0.0, terminated=False, truncated=False)

    def metrics(self) -> Metrics:
        self.touched_by.append(threading.get_ident())
        return Metrics(success=False)

    def render(self) -> NDArray[np.uint8]:
        self.touched_by.append(threading.get_ident())
        return np.zeros((2, 2, 3), np.uint8)

    def close(self) -> None:
        self.touched_by.append(threading.get_ident())
        self.closed = True


@pytest.fixture
def room() -> Iterator[list[Room]]:
    made: list[Room] = []
    yield made
    for one in made:
        one.released.set()


def maker(made: list[Room]) -> Callable[[], Environment]:
    def make() -> Environment:
        made.append(Room())
        return made[-1]

    return make


def touch_all(environment: Environment) -> None:
    environment.reset(0, "go", [])
    environment.step(ACTION)
    environment.metrics()
    environment.render()
    environment.close()


def test_on_a_thread_one_other_thread_touches_the_environment(room: list[Room]) -> None:
    touch_all(ThreadEnvironment("room", maker(room), LONG))
    assert len(room[0].touched_by) == 6
    (only,) = set(room[0].touched_by)
    assert only != threading.get_ident()


def test_a_thread_has_ended_when_its_environment_is_closed(room: list[Room]) -> None:
    """One that still runs when the process ends is broken off, and C++ below it aborts the process."""
    environment = ThreadEnvironment("room", maker(room), LONG)
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "environment_room"]
    environment.close()
    assert not thread.is_alive()


def test_an_observation_that_was_not_asked_for_is_an_error_with_the_environment_s_name(
    room: list[Room],
) -> None:
    environment = ThreadEnvironment("room", maker(room), LONG)
    environment.reset(0, "go", [])
    room[0].shown = {"observation.state": np.zeros(1, np.float32)}
    with pytest.raises(EnvError, match=r"room: shows observation\.state; asked for none"):
        environment.step(ACTION)
    with pytest.raises(EnvError, match=r"room: shows observation\.state; asked for none"):
        environment.reset(0, "go", [])
    environment.close()


def test_a_step_that_hangs_is_an_error_with_the_environment_s_name_and_the_next_touch_is_refused(
    room: list[Room],
) -> None:
    environment = ThreadEnvironment("room", maker(room), Timeouts(30.0, 30.0, 0.1, 30.0))
    environment.reset(0, "go", [])
    room[0].hangs = True
    with pytest.raises(EnvError, match=r"room: step took longer than 0\.1 s"):
        environment.step(ACTION)
    with pytest.raises(EnvError, match=r"room: reset refused: it hangs: step took longer than 0\.1 s"):
        environment.reset(1, "go", [])
    environment.close()  # returns, although the thread never does
    assert not room[0].closed


def test_an_environment_that_is_never_made_is_an_error(room: list[Room]) -> None:
    never = threading.Event()

    def make() -> Environment:
        never.wait(60.0)
        return Room()

    with pytest.raises(EnvError, match=r"room: make took longer than 0\.1 s"):
        ThreadEnvironment("room", make, SHORT)
    never.set()


def test_what_a_simulator_raises_names_the_environment_and_the_touch(room: list[Room]) -> None:
    environment = ThreadEnvironment("room", maker(room), LONG)
    with pytest.raises(EnvError, match="room: reset: ValueError: no such shelf"):
        environment.reset(0, "fail", [])
    environment.reset(0, "go", [])  # it works on
    environment.close()


class NumpyRoom(Room):
    """Returns what comparisons and sums of numpy's are; moves in its own time."""

    def __init__(self, distance: Any = 0.5) -> None:
        super().__init__()
        self.distance = distance
        self.reward = 0.5
        self.seconds_a_tick = 0.0

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        shown = EnvironmentObservation(self.shown, 0.1)
        return Step(shown, np.float64(self.reward), terminated=np.bool_(True), truncated=np.bool_(False))

    def metrics(self) -> Metrics:
        distance = np.float32(self.distance) if isinstance(self.distance, float) else self.distance
        return Metrics(np.bool_(True), {"distance": distance, "tries": np.int64(3), "hit": np.bool_(False)})

    def advance(self, action: NDArray[np.floating[Any]], time_s: float) -> Moment:
        self.released.wait(self.seconds_a_tick * round(time_s * SPEC.control_rate_hz))
        return Moment(np.float64(time_s), np.float64(self.reward), np.bool_(True))

    def observe(self) -> EnvironmentObservation:
        return EnvironmentObservation(self.shown, 0.0)


def test_numbers_and_truths_of_numpy_become_python_s() -> None:
    """A ROS message takes numpy's true for false, and JSON refuses it."""
    environment = RealTimeThreadEnvironment("room", NumpyRoom, LONG)
    environment.reset(0, "go", [])
    step, moment, metrics = environment.step(ACTION), environment.advance(ACTION, 0.1), environment.metrics()
    environment.close()
    assert step.terminated is True
    assert step.truncated is False
    assert type(step.reward) is float
    assert (moment.ended, type(moment.reward), type(moment.time_s)) == (True, float, float)
    assert metrics.success is True
    assert metrics.values == {"distance": 0.5, "tries": 3, "hit": False}
    assert [type(value) for value in metrics.values.values()] == [float, int, bool]


def test_a_reward_that_is_not_finite_is_the_environment_s_error() -> None:
    made = NumpyRoom()
    environment = RealTimeThreadEnvironment("room", lambda: made, LONG)
    environment.reset(0, "go", [])
    made.reward = np.nan
    with pytest.raises(NotFiniteError, match=r"room: reward at 0\.1 s: found nan, expected finite values"):
        environment.step(ACTION)
    with pytest.raises(NotFiniteError, match=r"room: reward at 0\.2 s: found nan"):
        environment.advance(ACTION, 0.2)
    environment.close()


@pytest.mark.parametrize("room", [lambda: NumpyRoom(distance=None), lambda: NumpyRoom(distance="far")])
def test_a_metric_that_is_no_number_is_the_environment_s_error(room: Callable[[], Environment]) -> None:
    environment = ThreadEnvironment("room", room, LONG)
    with pytest.raises(EnvError, match="room: metrics: expected numbers and truth values: "):
        environment.metrics()
    environment.close()


def test_a_simulator_that_lags_several_ticks_behind_may_take_the_time_of_each() -> None:
    """It is slower than the wall clock, and does not hang."""
    made = NumpyRoom()
    environment = RealTimeThreadEnvironment("room", lambda: made, replace(LONG, step_s=0.5))
    made.seconds_a_tick = 0.15
    assert environment.advance(ACTION, 0.8).time_s == pytest.approx(0.8)
    made.released.set()
    environment.close()
