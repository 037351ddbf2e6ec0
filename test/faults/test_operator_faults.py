# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Operators who reset or pause at the worst moment."""

from __future__ import annotations

import time

import pytest

from support.faults.arm import Arm
from support.faults.fault import Fault
from support.faults.judge import MAX_ACTION_AGE_S
from support.faults.scripted_server import ScriptedServer, right_answer

SLOW_S = 0.5  # delay of each answer: the robot waits for one most of the time
RESETS = 30


@pytest.fixture
def waiting(arm: Arm, scripted: ScriptedServer) -> Arm:
    """A robot with full queue whose request, of some captures ago, is at the server."""
    arm.start_arm(servers=[scripted.name])
    scripted.behaviour = lambda observation: [(SLOW_S, right_answer(observation))]
    seen = len(scripted.observations)
    arm.wait_for(lambda: len(scripted.observations) > seen, "a request")
    requested = len(arm.record.captures)
    arm.wait_for(lambda: len(arm.record.captures) > requested + 3, "captures after the request")
    return arm


@pytest.mark.fault("reset during a request")
def test_a_reset_during_a_request_ends_the_old_episode_at_once(waiting: Arm, fault: Fault) -> None:
    fault.begins()
    fault.ends()
    waiting.reset()
    fault.wait_for_recovery()


@pytest.mark.fault("30 resets as fast as they are answered")
def test_a_robot_recovers_from_many_resets(arm: Arm, fault: Fault) -> None:
    arm.start_arm_server()
    arm.start_arm()
    fault.begins()
    for _ in range(RESETS):
        assert "acknowledged by /policy_server" in arm.reset()
    fault.ends()
    fault.wait_for_recovery()
    assert arm.record.commands[-1].episode == RESETS


@pytest.mark.fault("pause during a request, resume when all actions have aged out")
def test_a_pause_during_a_request_stops_the_robot(waiting: Arm, fault: Fault) -> None:
    fault.begins()
    waiting.pause()
    time.sleep(MAX_ACTION_AGE_S + 0.5)  # the pause is the fault
    fault.ends()
    waiting.resume()
    fault.wait_for_recovery()
