# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a robot is commanded that is paused, stopped or dead, and while a person leads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.controller_stop import STOPS, max_stopping_s
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.command_mode import HumanCommands, StopInputs
from remote_inference.robot.safety.guard import FOLLOWING_ERROR, NON_FINITE, SENSOR_AGE
from support.builders import JOINTS, PERIOD_NS, contract_document, make_rows, ns
from support.robot.played_arm import TWO_CONTROLLERS, Arm


@pytest.mark.parametrize("flag", ["paused", "halted"])
@pytest.mark.parametrize("fallback", ["hold", "repeat_last"])
def test_paused_and_halted_command_nothing_and_keep_the_queue(flag: str, fallback: str):
    arm = Arm(fallback)
    arm.feed(make_rows(5))
    arm.playback.tick(0)
    arm.playback.control.change(**{flag: True})
    for index in range(3):
        tick = arm.playback.tick(index * PERIOD_NS)
        assert (tick.command, tick.source) == (None, CommandSource.NONE)
    assert len(arm.queue) == 4
    assert arm.playback.starved == ""


@pytest.mark.parametrize("flag", ["paused", "halted"])
def test_a_velocity_robot_that_is_paused_or_dead_is_told_to_stop_for_a_while(flag: str):
    """It keeps its last velocity in silence; zeros for ever would fight whoever takes over."""
    arm = Arm(kind="velocity", fallback="zero")
    arm.feed(make_rows(2), capture_ns=ns(1))
    assert arm.playback.tick(ns(1)).source is CommandSource.CHUNK
    arm.playback.control.change(**{flag: True})
    sources = [arm.playback.tick(ns(2)).source for _ in range(40)]
    assert sources == [CommandSource.ZERO] * STOPS + [CommandSource.NONE] * (40 - STOPS)


@pytest.mark.parametrize("kind", ["velocity", "effort"])
def test_nothing_is_commanded_before_the_first_action_not_even_a_stop(kind: str):
    """Another node of this name may be driving the robot."""
    arm = Arm("zero", kind)
    assert [arm.playback.tick(index * PERIOD_NS).command for index in range(3)] == [None] * 3


def test_a_robot_that_is_not_halted_is_not_finished():
    arm = Arm()
    arm.playback.tick(0)
    assert not arm.playback.finished
    arm.playback.control.change(halted=True)
    assert arm.playback.finished


def test_an_end_is_waited_for_a_second_longer_than_its_stops_take():
    playback = Arm().playback
    assert playback.rules.max_stopping_s == pytest.approx(max_stopping_s(PERIOD_NS / 1e9) + 1.0)
    assert playback.rules.longest_end_s == playback.rules.max_stopping_s, "there is no way home"


def halted(**options: Any) -> Arm:
    """An arm that was commanded once, and may go home now."""
    home = {"positions": [0.5, 0.5], "duration_s": 10.0}
    document = contract_document() | {"commands": TWO_CONTROLLERS, "home": home}
    arm = Arm(contract=parse_document(document, Contract, "test.yaml"), **options)
    arm.feed(make_rows(1))
    arm.playback.tick(0)
    arm.playback.control.change(halted=True, wants_home=True)
    return arm


@pytest.mark.parametrize("joint", range(2))
def test_an_arm_of_which_one_controller_is_absent_does_not_go_home(joint: int):
    arm = halted()
    arm.playback.listen(arm.playback.rules.contract.commands[joint : joint + 1])
    assert arm.playback.tick(PERIOD_NS).command is None
    assert arm.playback.finished


def test_an_arm_with_an_unreadable_joint_does_not_go_home():
    arm = halted()
    arm.playback.control.change(forget=True, measured=np.array([np.nan, 0.0]), measured_ns=PERIOD_NS)
    tick = arm.playback.tick(PERIOD_NS)
    assert (tick.command, tick.interventions) == (None, (NON_FINITE,))
    assert arm.playback.finished


def test_a_stop_ends_the_way_home():
    """By itself: the operator's node may be too late to pause the robot."""
    stops = StopInputs({})
    arm = halted(stops=stops)
    assert arm.playback.tick(PERIOD_NS).source is CommandSource.HOMING
    stops.latch("estop")
    assert arm.playback.tick(2 * PERIOD_NS).command is None


def test_a_robot_that_is_paused_lacks_nothing():
    arm = Arm()
    arm.playback.tick(0)
    assert arm.playback.starved
    arm.playback.control.change(paused=True)
    arm.playback.tick(PERIOD_NS)
    assert arm.playback.starved == ""


def taken_over(kind: str = "position") -> tuple[Arm, HumanCommands]:
    """An arm that is a person's, who has said nothing yet."""
    human = HumanCommands(silent_s=0.2)
    arm = Arm("hold" if kind == "position" else "zero", kind, human=human)
    arm.playback.control.change(taken_over=True)
    return arm, human


def test_a_person_s_command_ends_the_starving():
    arm, human = taken_over()
    arm.playback.tick(0)
    assert arm.playback.starved == "takeover topic silent"
    human.deposit(np.full(2, 0.05), 0)
    assert arm.playback.tick(0).source is CommandSource.HUMAN
    assert arm.playback.starved == ""


def test_a_person_does_not_lead_an_arm_on_that_does_not_follow():
    arm, human = taken_over()
    for index in range(10):
        human.deposit(np.full(2, 0.9), index * PERIOD_NS)
        tick = arm.playback.tick(index * PERIOD_NS)
    assert tick.interventions == (FOLLOWING_ERROR,)
    assert tick.source is CommandSource.REPEAT_LAST, "it is led back to where it is"
    assert arm.playback.starved == f"{', '.join(JOINTS)}: the arm does not follow"


@pytest.mark.parametrize(("kind", "commanded"), [("position", False), ("velocity", True), ("effort", True)])
def test_only_a_position_of_a_person_needs_a_measured_one(kind: str, commanded: bool):
    arm, human = taken_over(kind)
    arm.playback.control.change(measured=None)
    human.deposit(np.full(2, 0.05), 0)
    assert (arm.playback.tick(0).command is not None) == commanded
    assert arm.guard.counts[SENSOR_AGE] == (0 if commanded else 1)


def test_a_robot_that_a_person_led_is_stopped_for_a_while_when_it_is_paused():
    arm, human = taken_over("velocity")
    human.deposit(np.full(2, 0.05), 0)
    assert arm.playback.tick(0).source is CommandSource.HUMAN
    arm.playback.control.change(paused=True)
    sources = [arm.playback.tick(PERIOD_NS).source for _ in range(STOPS + 1)]
    assert sources == [CommandSource.ZERO] * STOPS + [CommandSource.NONE]
