# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Controllers that are gone for a while."""

from __future__ import annotations

import pytest
from arm import JUMP_CAPTURES, OVERSHOOT, Arm
from fault import Fault
from judge import LIMITS, MAX_VELOCITY, PERIOD_S, ROUNDING


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
