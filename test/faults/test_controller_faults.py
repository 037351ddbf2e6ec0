# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Controllers that are gone for a while, and drives that are off."""

from __future__ import annotations

from functools import partial

import pytest
from trajectory_msgs.msg import JointTrajectory

from support.faults.arm import JUMP_CAPTURES, OVERSHOOT, Arm
from support.faults.fault import Fault
from support.faults.following_arm import SWEEP, FollowingArm, silence, sweep
from support.faults.judge import LIMITS, MAX_VELOCITY, PERIOD_S, ROUNDING, SENSED_S
from support.faults.scripted_server import ScriptedServer


@pytest.mark.fault("the controller ends and comes back")
def test_a_controller_that_comes_back_is_commanded_from_the_measured_position(arm: Arm, fault: Fault) -> None:
    """The measured shoulder is at either end of its range: a first command between them would be a jump."""
    arm.start_arm_server()
    arm.start_arm()
    fault.begins()
    arm.stop_controller()
    first = len(arm.executed)
    jumps = len(arm.record.captures) + 3 * JUMP_CAPTURES["shoulder"]
    arm.wait_for(lambda: len(arm.record.captures) > jumps, "the measured shoulder jumps")
    unheard = [tick for tick in arm.executed[first:] if tick.source == tick.CHUNK]
    fault.ends()
    arm.start_controller()
    fault.wait_for_recovery()
    assert {abs(tick.action[0]) > least_reach() for tick in unheard} == {True}
    assert {tick.action[0] > 0 for tick in unheard} == {True, False}


def least_reach() -> float:
    step = MAX_VELOCITY["shoulder"] * PERIOD_S
    return OVERSHOOT * LIMITS["shoulder"][1] - step - ROUNDING


MAX_FOLLOWING_ERROR = 0.8  # way at full speed in 0.27 s, for a loaded machine [rad]


def moved_away(arm: FollowingArm) -> float:
    """Return a shoulder position far from the node's last command, within the limits."""
    last = next(tick.action[0] for tick in reversed(arm.executed) if len(tick.action))
    return -SWEEP if last > 0 else SWEEP


@pytest.mark.parametrize(
    ("arm", "fallback"),
    [
        pytest.param(
            FollowingArm,
            "hold",
            marks=pytest.mark.fault("the controller ends and comes back while the robot holds"),
            id="hold",
        ),
        pytest.param(
            FollowingArm,
            "repeat_last",
            marks=pytest.mark.fault("the controller ends and comes back while the last command is repeated"),
            id="repeat_last",
        ),
        pytest.param(
            partial(FollowingArm, controller=JointTrajectory),
            "hold",
            marks=pytest.mark.fault("a trajectory controller ends and comes back"),
            id="trajectory",
        ),
    ],
    indirect=["arm"],
)
def test_a_controller_that_comes_back_to_a_robot_with_nothing_to_execute_hears_no_jump(
    arm: FollowingArm, scripted: ScriptedServer, fault: Fault, fallback: str
) -> None:
    """The arm is moved by hand meanwhile, and no following error tells: the last command is far from it."""
    scripted.behaviour = sweep
    arm.start_following(scripted.name, fallback=fallback)
    fault.begins()
    arm.stop_controller()
    scripted.behaviour = silence
    arm.wait_for(lambda: arm.executed[-1].source != arm.executed[-1].CHUNK, "nothing to execute")
    arm.move_by_hand(moved_away(arm))
    heard = len(arm.record.commands)
    arm.start_controller()
    if fallback == "repeat_last":
        arm.wait_for_commands_after(heard, 5)
    scripted.behaviour = sweep
    fault.ends()
    fault.wait_for_recovery()


@pytest.mark.fault("the drives go off while the robot streams, and come back")
@pytest.mark.parametrize(
    "arm",
    [pytest.param(partial(FollowingArm, max_following_error=MAX_FOLLOWING_ERROR), id="drives")],
    indirect=True,
)
def test_an_arm_whose_drives_are_off_is_not_led_on(
    arm: FollowingArm, scripted: ScriptedServer, fault: Fault
) -> None:
    scripted.behaviour = sweep
    arm.start_following(scripted.name)
    fault.begins()
    arm.lose_drives()
    first = len(arm.executed)
    arm.wait_for(lambda: "following_error" in arm.executed[-1].interventions, "found astray")
    arm.wait_for(lambda: "shoulder: farther from the last command" in arm.states[-1].cause, "named")
    arm.wait_for(lambda: len(arm.executed) > first + 120, "ticks")
    still = arm.record.captures[-1].positions[0]
    lead = max(abs(tick.action[0] - still) for tick in arm.executed[first:] if len(tick.action))
    assert lead <= MAX_FOLLOWING_ERROR + (SENSED_S + PERIOD_S) * MAX_VELOCITY["shoulder"]
    assert arm.states[-1].state_name == "STALLED"
    arm.regain_drives()
    fault.ends()
    fault.wait_for_recovery()
