# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An arm that moves is stopped under way, or fails on its way home: no command is far from where it is."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from functools import partial

import pytest

from remote_inference.msg import ExecutedAction
from support.faults.moving_arm import MovingArm
from support.faults.watched_arm import PERIOD_S, each_controller, go_on_after_resume, wait_for_reports
from support.nodes.rig import CONTRACT, DEADLINE_S
from support.waiting import wait_until

MAX_VELOCITY = CONTRACT["actions"]["limits"]["shoulder"]["max_velocity"]  # [rad/s]
STEP = MAX_VELOCITY * PERIOD_S  # [rad]
FAR = 2 * STEP  # a command may be a moment on its way to an arm that moves on meanwhile
MAX_FOLLOWING_ERROR = 0.25 * MAX_VELOCITY  # its default
MEASURED_S = 0.2  # age of the position by which the node finds that the arm does not follow
HOME = {"positions": [1.5, 0.0], "duration_s": 3.0}
# Chunks replace each other, so that much is queued; a robot that loses its server soon gives up.
PARAMETERS = {
    "merge_mode": "replace",
    "buffer_time_s": 2.5,
    "max_action_age_s": 1.5,
    "max_offline_s": 1.0,
    "reconnect_initial_backoff_s": 0.2,
}
Note = Callable[[str, str], None]
each_arm = partial(each_controller, kinds=("position", "trajectory"), arm="moving")


@pytest.mark.parametrize("moving", ["trajectory"], indirect=True)
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(
            "frozen", marks=pytest.mark.fault("the robot's node is frozen while a trajectory moves the arm")
        ),
        pytest.param(
            "stuck", marks=pytest.mark.fault("the control thread hangs while a trajectory moves the arm")
        ),
    ],
)
def test_an_arm_that_the_watchdog_has_held_is_not_led_from_where_it_would_be_by_now(
    moving: MovingArm, how: str, note: Note
) -> None:
    moving.start(**PARAMETERS)
    begin_ns = time.time_ns()
    if how == "frozen":
        moving.robot.send_signal(signal.SIGSTOP)
    else:
        moving.stick_control()
    moving.wait_for_watchdog("TRIPPED")
    wait_for_reports(moving, 3)  # the trajectory would have gone on for more than a second
    if how == "frozen":
        moving.robot.send_signal(signal.SIGCONT)
    else:
        moving.free_control()
    go_on_after_resume(moving)
    farthest = moving.largest_step(begin_ns)
    assert farthest <= FAR
    note(f"the watchdog held it; no command was more than {farthest:.2f} rad from it", "-, `resume`")


@each_arm("the drives go off on the way home")
def test_an_arm_that_stops_following_on_its_way_home_is_not_led_on(moving: MovingArm, note: Note) -> None:
    begin_ns = start_on_the_way_home(moving)
    moving.lose_drives()
    farthest = wait_for_end(moving, begin_ns)
    assert farthest <= MAX_FOLLOWING_ERROR + MEASURED_S * MAX_VELOCITY + STEP
    assert count(moving, "following_error")
    note(f"the way home ended, commands were at most {farthest:.2f} rad from the arm", "-, exit 1")


@each_arm("the robot's node is frozen on the way home")
def test_a_way_home_ends_when_the_node_was_frozen(moving: MovingArm, note: Note) -> None:
    begin_ns = start_on_the_way_home(moving)
    moving.robot.send_signal(signal.SIGSTOP)
    moving.wait_for_watchdog("TRIPPED")
    wait_for_reports(moving, 2)
    moving.robot.send_signal(signal.SIGCONT)
    farthest = wait_for_end(moving, begin_ns)
    assert farthest <= FAR
    assert abs(moving.where(time.time_ns())[0] - HOME["positions"][0]) > STEP
    note(f"the way home ended, no command was more than {farthest:.2f} rad from the arm", "-, exit 1")


@pytest.mark.fault("the robot gives up while its arm does not follow")
@pytest.mark.parametrize("moving", ["position"], indirect=True)
def test_a_robot_that_gives_up_without_drives_ends_and_drives_nowhere(moving: MovingArm, note: Note) -> None:
    moving.sections = {"home": HOME}
    moving.fallback = "repeat_last"
    moving.limit = {"max_following_error": 0.3}  # less than the way of a chunk
    moving.start(**{**PARAMETERS, "merge_mode": "append", "buffer_time_s": 0.1})
    begin_ns = time.time_ns()
    moving.lose_drives()
    moving.wait_for(lambda: moving.states[-1].state_name == "STALLED", "found astray")
    moving.server.kill()
    farthest = wait_for_end(moving, begin_ns)
    assert farthest <= MAX_FOLLOWING_ERROR + MEASURED_S * MAX_VELOCITY + STEP
    assert ExecutedAction.HOMING not in {tick.source for tick in moving.executed}
    note(f"it ended, commands were at most {farthest:.2f} rad from the arm", "-, exit 1")


def start_on_the_way_home(arm: MovingArm) -> int:
    """Let a robot move and give up; return the time at which it is under way home."""
    arm.sections = {"home": HOME}
    arm.start(**PARAMETERS)
    arm.server.kill()
    homing = ExecutedAction.HOMING
    arm.wait_for(lambda: sum(tick.source == homing for tick in arm.executed) >= 5, "under way home")
    return time.time_ns()


def wait_for_end(arm: MovingArm, begin_ns: int) -> float:
    """Wait until the robot's process has ended; return the largest distance of a command since a time."""
    assert arm.robot.wait(DEADLINE_S) == 1
    wait_until(lambda: arm.states[-1].state_name == "DEAD", "its last state")
    return arm.largest_step(begin_ns)


def count(arm: MovingArm, rule: str) -> int:
    """Return how often a rule of the guard has acted."""
    return int(dict(zip(arm.states[-1].guard_names, arm.states[-1].guard_counts, strict=True))[rule])
