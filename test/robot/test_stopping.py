# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The stops that follow a command, counted one by one, and a fallback of somebody's own within the guard."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from remote_inference.robot.command import FALLBACKS_FROM, CommandSource
from remote_inference.robot.fallbacks import FALLBACKS
from remote_inference.robot.safety.guard import NON_FINITE, SENSOR_AGE, VELOCITY_LIMIT
from support.builders import (
    FLOAT64_MULTI_ARRAY,
    JOINT_TRAJECTORY,
    JOINTS,
    MAX_STEP,
    PERIOD_NS,
)
from support.robot.motions import FIRST, SECOND
from support.robot.stopped_robot import STOPS, UNSEEN, StoppedRobot

OWN = CommandSource(FALLBACKS_FROM)


class Lean:
    """A fallback of somebody's own: half a radian on, whatever the joint, and to zero to stop."""

    action_kinds: ClassVar[tuple[str, ...]] = ("position",)
    source = OWN

    def command(self, last: np.ndarray, reference: np.ndarray | None) -> np.ndarray:
        return last + 0.5

    def stop(self, last: np.ndarray) -> np.ndarray:
        return 0.0 * last


class LeanAll(Lean):
    """The same, said to be safe for velocities, too."""

    action_kinds = ("position", "velocity")

    def command(self, last: np.ndarray, reference: np.ndarray | None) -> np.ndarray:
        return last + np.array([0.0, 50.0])


@pytest.fixture(autouse=True)
def own_fallbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FALLBACKS, "_entries", {**FALLBACKS._entries, "lean": Lean, "lean_all": LeanAll})


def trajectories(fallback: str = "hold") -> StoppedRobot:
    return StoppedRobot(("position", "position"), fallback, (JOINT_TRAJECTORY, JOINT_TRAJECTORY))


# -- how many stops ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [("velocity", "velocity"), ("position", "effort")])
def test_a_robot_that_was_never_commanded_gets_no_stop(kinds: tuple[str, str]):
    robot = StoppedRobot(kinds, "hold" if "position" in kinds else "zero")
    assert robot.stop().command is None


@pytest.mark.parametrize(
    ("kinds", "fallback", "types"),
    [
        (("velocity", "velocity"), "zero", ()),
        (("position", "velocity"), "hold", ()),
        (("position", "velocity"), "hold", (JOINT_TRAJECTORY, FLOAT64_MULTI_ARRAY)),
        (("position", "position"), "hold", (JOINT_TRAJECTORY, JOINT_TRAJECTORY)),
        (("position", "position"), "lean", ()),
        (("position", "position"), "lean", (JOINT_TRAJECTORY, JOINT_TRAJECTORY)),
    ],
)
def test_what_was_commanded_gets_its_stops_and_then_silence(kinds: Any, fallback: str, types: Any):
    robot = StoppedRobot(kinds, fallback, types)
    for _ in range(2):
        robot.pend()
        assert robot.must_stop
        assert robot.count() == STOPS


def test_positions_that_a_controller_keeps_by_itself_get_no_stop():
    robot = StoppedRobot(("position", "position"), "hold")
    robot.pend()
    assert robot.stop().command is None
    assert not robot.must_stop


def test_stops_that_did_not_leave_are_pending_again():
    robot = trajectories()
    robot.pend()
    robot.estimate(halted=True)
    assert robot.count() == STOPS
    robot.estimate(halted=True, withheld=1)
    assert robot.count() == STOPS


def test_what_ended_by_itself_gets_no_stop():
    robot = trajectories()
    robot.pend()
    robot.pend(0)
    assert robot.count() == 0


@pytest.mark.parametrize("halted", [False, True])
def test_only_a_robot_that_has_given_up_counts_stops_that_nobody_hears(halted: bool):
    """Where its joints are is known: they were seen lately, and nothing moves them."""
    robot = trajectories()
    robot.pend()
    robot.keep_going(10 * PERIOD_NS)
    ticks = [robot.stop(unsubscribed=SECOND, halted=halted) for _ in range(STOPS + 1)]
    assert [tick.ends for tick in ticks[:STOPS]] == [JOINTS if halted else JOINTS[:1]] * STOPS
    assert {tick.late_ns for tick in ticks} == {0}
    assert robot.must_stop is not halted
    assert ticks[-1].in_force is not halted
    assert robot.stop(now_ns=10 * PERIOD_NS, unsubscribed=SECOND).command is None
    assert not robot.must_stop, "its rows have ended by themselves"


def test_zeros_end_while_a_trajectory_beside_them_goes_on():
    robot = StoppedRobot(("position", "velocity"), "hold", (JOINT_TRAJECTORY, FLOAT64_MULTI_ARRAY))
    robot.pend()
    robot.lose(FIRST)
    robot.keep_going(10 * PERIOD_NS)
    for _ in range(STOPS + 1):
        assert robot.stop(measured=None).in_force
    for _ in range(UNSEEN):
        assert robot.must_stop
        robot.stop(measured=None, now_ns=10 * PERIOD_NS)
    assert not robot.must_stop


def make_ended_rows() -> StoppedRobot:
    """A robot whose trajectory has run out, and whose first joint may be anywhere."""
    robot = StoppedRobot(("position", "velocity"), "hold", (JOINT_TRAJECTORY, FLOAT64_MULTI_ARRAY))
    robot.pend()
    robot.lose(FIRST)
    return robot


def test_rows_that_have_ended_wait_for_a_measurement_and_anew_after_each():
    robot = make_ended_rows()
    for seen in (None, None, np.zeros(2), *[None] * (UNSEEN - 1)):
        assert robot.stop(seen=seen).in_force
    assert not robot.stop().in_force
    assert not robot.must_stop


def test_rows_of_the_next_command_wait_for_a_measurement_as_long_as_those_before():
    robot = make_ended_rows()
    for _ in range(2):
        robot.pend()
        for _ in range(UNSEEN - 1):
            assert robot.stop().in_force


def test_ended_rows_of_a_robot_that_has_given_up_wait_only_while_their_joints_are_seen():
    robot = make_ended_rows()
    assert robot.stop().in_force
    assert robot.stop(halted=True, seen=np.zeros(2)).in_force
    assert not robot.stop(halted=True).in_force
    assert not robot.must_stop


# -- what a stop says of what it leaves ----------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [("velocity", "velocity"), ("position", "velocity")])
def test_zeros_leave_nothing_in_force_and_are_counted_in_a_late_tick_too(kinds: tuple[str, str]):
    robot = StoppedRobot(kinds, "hold" if "position" in kinds else "zero")
    robot.pend()
    for _ in range(STOPS):
        tick = robot.stop(is_late=True)
        assert (tick.source, tick.in_force) == (CommandSource.ZERO, False)
    assert not robot.must_stop


def test_a_late_tick_ends_no_trajectory_and_says_that_it_goes_on():
    robot = StoppedRobot(("position", "velocity"), "hold", (JOINT_TRAJECTORY, FLOAT64_MULTI_ARRAY))
    robot.pend()
    tick = robot.stop(is_late=True)
    assert (tick.source, tick.in_force) == (CommandSource.ZERO, True)
    assert robot.count() == STOPS


# -- the fallback within the guard ---------------------------------------------------------------------------


def test_an_effort_is_zero_at_once_however_far_that_is():
    """The guard bounds how fast an effort changes; a stop is not bounded."""
    robot = StoppedRobot(("effort", "effort"), "zero")
    robot.follow(0.9, -0.9)
    robot.pend()
    for tick in (robot.fall_back(), robot.stop()):
        assert tick.command == pytest.approx([0.0, 0.0])
        assert tick.interventions == ()


def test_positions_of_an_own_fallback_are_limited_and_the_effort_beside_is_zero_at_once():
    robot = StoppedRobot(("position", "effort"), "lean")
    robot.follow(0.0, 0.9)
    tick = robot.fall_back()
    assert tick.command == pytest.approx([MAX_STEP, 0.0])
    assert (tick.source, tick.interventions) == (OWN, (VELOCITY_LIMIT,))


@pytest.mark.parametrize("kinds", [("position", "velocity"), ("velocity", "velocity")])
def test_velocities_of_an_own_fallback_are_limited(kinds: tuple[str, str]):
    robot = StoppedRobot(kinds, "lean_all")
    tick = robot.fall_back()
    assert tick.command[1] < 50.0
    assert tick.interventions != ()


def test_an_own_fallback_leads_no_joint_that_may_be_anywhere():
    robot = StoppedRobot(("position", "effort"), "lean")
    robot.lose(FIRST)
    tick = robot.fall_back(measured=None)
    assert (tick.source, tick.interventions, tick.in_force) == (CommandSource.ZERO, (SENSOR_AGE,), False)


def test_a_position_outside_its_limits_is_repeated_as_it_is():
    """A limit never leads a joint that is to stay."""
    robot = StoppedRobot(("position", "position"), "repeat_last")
    robot.follow(1.5, 0.0)
    tick = robot.fall_back()
    assert tick.command == pytest.approx([1.5, 0.0])
    assert tick.interventions == ()


def test_a_joint_measured_at_no_number_is_not_commanded_there():
    robot = StoppedRobot(("position", "position"), "repeat_last")
    robot.lose(FIRST)
    tick = robot.fall_back(measured=np.array([np.inf, 0.0]))
    assert (tick.command, tick.interventions) == (None, (NON_FINITE,))
