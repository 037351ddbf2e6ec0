# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a step begins: at the last command, or where the arm is measured; and who has heard of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.estimate import RETRY_NS
from remote_inference.robot.safety.guard import (
    FOLLOWING_ERROR,
    NON_FINITE,
    SENSOR_AGE,
    VELOCITY_LIMIT,
    Guard,
)
from support.builders import JOINTS, MAX_STEP, PERIOD_NS, contract_document, make_contract, make_rows, ns
from support.robot.playbacks import MAX_AGE_NS
from support.robot.played_arm import TWO_CONTROLLERS, Arm


def test_the_step_is_limited_against_the_last_command_and_against_the_robot_before_the_first():
    arm = Arm()
    arm.playback.control.change(measured=np.array([0.5, 0.5]))
    arm.feed(np.zeros((2, 2), np.float32))
    tick = arm.playback.tick(0)
    assert tick.command == pytest.approx([0.5 - MAX_STEP] * 2)
    assert tick.interventions == (VELOCITY_LIMIT,)
    arm.playback.control.change(
        measured=np.array([0.9, 0.9])
    )  # lags behind or is pushed: the command's own path counts
    assert arm.playback.tick(PERIOD_NS).command == pytest.approx([0.5 - 2 * MAX_STEP] * 2)


def test_after_forget_command_the_measured_position_is_the_reference():
    """The arm was moved by hand; stepping from the old command would jump."""
    arm = Arm()
    arm.feed(np.zeros((2, 2), np.float32))
    arm.playback.tick(0)
    arm.playback.control.change(forget=True)
    arm.playback.control.change(measured=np.array([0.8, -0.8]))
    assert arm.playback.tick(PERIOD_NS).command == pytest.approx([0.8 - MAX_STEP, -0.8 + MAX_STEP])


def test_an_unreadable_joint_does_not_poison_the_commands():
    """A NaN taken as the first reference would be the last command of every later step."""
    arm = Arm()
    arm.playback.control.change(measured=np.array([np.nan, 0.0]))
    arm.feed(make_rows(3))
    commands = [arm.playback.tick(0).command]
    arm.playback.control.change(measured=np.zeros(2))
    commands += [arm.playback.tick(index * PERIOD_NS).command for index in (1, 2)]
    assert all(command is None or np.isfinite(command).all() for command in commands)
    assert commands[-1] is not None


def test_a_command_that_is_forgotten_in_the_middle_of_a_tick_is_forgotten():
    """The reset comes from another thread, between the tick's look at the reference and its end."""

    class InterruptedGuard(Guard):
        def check(self, *arguments, **keywords):
            arm.playback.control.change(forget=True)
            return super().check(*arguments, **keywords)

    arm = Arm()
    arm.feed(np.zeros((3, 2), np.float32))
    rules = arm.playback.rules
    guard = InterruptedGuard(make_contract().actions, PERIOD_NS / 1e9)
    arm.playback.rules = replace(rules, guard=guard)
    arm.playback.tick(0)
    arm.playback.rules = rules
    arm.playback.control.change(measured=np.array([0.5, 0.5]))
    assert arm.playback.tick(PERIOD_NS).command == pytest.approx([0.5 - MAX_STEP] * 2)


def test_a_position_robot_waits_for_a_fresh_position_before_its_first_step():
    """Nothing is taken from the queue meanwhile; the age bound empties it if the sensor stays silent."""
    arm = Arm()
    arm.playback.control.change(measured=None)
    arm.feed(make_rows(3))
    tick = arm.playback.tick(0)
    assert tick.command is None
    assert tick.interventions == (SENSOR_AGE,)
    assert "position" in arm.playback.starved
    assert len(arm.queue) == 3
    arm.playback.control.change(measured=np.zeros(2))
    assert arm.playback.tick(PERIOD_NS).command == pytest.approx([0.0, 0.0])


def test_a_robot_on_its_way_needs_no_fresh_position():
    arm = Arm()
    arm.feed(make_rows(3))
    arm.playback.tick(0)
    arm.playback.control.change(measured=None)
    assert arm.playback.tick(PERIOD_NS).command is not None


def test_an_effort_robot_ramps_up_again_after_zeros():
    arm = Arm("zero", "effort")
    arm.feed(np.full((2, 2), 0.15, np.float32))
    commands = [arm.playback.tick(index * PERIOD_NS).command for index in range(3)]
    assert commands[1] == pytest.approx([0.15, 0.15])
    assert commands[2] == pytest.approx([0.0, 0.0])
    arm.feed(np.full((1, 2), 0.15, np.float32))
    assert arm.playback.tick(3 * PERIOD_NS).command == pytest.approx([MAX_STEP, MAX_STEP])


def test_an_effort_robot_ramps_up_from_zero_after_resume_wherever_its_joints_are():
    """A measured position is no effort."""
    arm = Arm("zero", "effort")
    arm.playback.control.change(measured=np.array([0.9, -0.9]))
    arm.feed(np.zeros((10, 2), np.float32))
    arm.playback.tick(0)
    arm.playback.control.change(paused=True)
    arm.playback.tick(PERIOD_NS)
    arm.playback.control.change(forget=True)
    arm.playback.control.change(paused=False)
    assert arm.playback.tick(2 * PERIOD_NS).command == pytest.approx([0.0, 0.0])


def test_after_a_long_silence_the_step_is_taken_from_where_the_arm_is():
    """Somebody else may have moved it while this node had nothing to command."""
    arm = Arm()
    arm.feed(np.full((1, 2), 0.05, np.float32))
    arm.playback.tick(0)
    arm.playback.control.change(measured=np.array([-0.8, 0.8]))
    arm.feed(np.full((1, 2), 0.05, np.float32), capture_ns=2 * MAX_AGE_NS)
    command = arm.playback.tick(2 * MAX_AGE_NS).command
    assert command == pytest.approx([-0.8 + MAX_STEP, 0.8 - MAX_STEP])


def half_heard(kind: str = "position", fallback: str = "hold") -> Arm:
    """An arm far from its commands, whose shoulder has no controller that listens."""
    contract = parse_document(contract_document(kind) | {"commands": TWO_CONTROLLERS}, Contract, "test.yaml")
    arm = Arm("zero" if kind == "effort" else fallback, kind, contract=contract)
    arm.feed(np.full((20, 2), 0.9, np.float32))
    for index in range(5):
        arm.playback.tick(index * PERIOD_NS)
    arm.playback.control.change(measured=np.array([-0.3, 0.5]))
    arm.playback.listen(contract.commands[:1])
    return arm


def test_joints_that_hear_nothing_step_from_where_they_are_and_the_others_go_on():
    arm = half_heard()
    commands = [arm.playback.tick(index * PERIOD_NS).command for index in (5, 6)]
    assert commands[0] == pytest.approx([-0.3 + MAX_STEP, 6 * MAX_STEP])
    assert commands[1] == pytest.approx([-0.3 + MAX_STEP, 7 * MAX_STEP])


def test_a_controller_that_comes_back_is_led_on_from_where_its_joints_are():
    """What was commanded meanwhile went unheard: no step begins there."""
    arm = half_heard()
    arm.playback.tick(5 * PERIOD_NS)
    arm.playback.listen([])
    assert arm.playback.tick(6 * PERIOD_NS).command == pytest.approx([-0.3 + MAX_STEP, 7 * MAX_STEP])


@pytest.mark.parametrize("is_back", [False, True])
def test_joints_that_hear_nothing_wait_for_a_measurement_from_after_their_last_command(is_back: bool):
    """Their controller may have heard it, or be there all the time: graphs are wrong at times."""
    arm = Arm()
    arm.feed(np.full((20, 2), 0.9, np.float32))
    arm.playback.control.change(measured=np.zeros(2), measured_ns=0)
    for index in range(5):
        arm.playback.tick(index * PERIOD_NS)
    sinks = arm.playback.rules.contract.commands
    arm.playback.listen(sinks)
    if is_back:
        arm.playback.tick(5 * PERIOD_NS)
        arm.playback.listen([])
    tick = arm.playback.tick(6 * PERIOD_NS)
    assert (tick.command, tick.interventions) == (None, (SENSOR_AGE,))
    arm.playback.control.change(measured=np.full(2, 0.5), measured_ns=6 * PERIOD_NS)
    assert arm.playback.tick(7 * PERIOD_NS).command == pytest.approx([0.5 + MAX_STEP] * 2)


def test_one_joint_that_hears_nothing_lets_all_wait_for_a_measurement_from_after_its_last_command():
    """Which then may be as old as any: what is commanded meanwhile does not move that joint."""
    contract = parse_document(contract_document() | {"commands": TWO_CONTROLLERS}, Contract, "test.yaml")
    arm = Arm(contract=contract)
    arm.feed(np.full((20, 2), 0.9, np.float32))
    arm.playback.control.change(measured=np.zeros(2), measured_ns=0)
    arm.playback.tick(0)
    arm.playback.listen(contract.commands[:1])
    assert arm.playback.tick(PERIOD_NS).interventions == (SENSOR_AGE,)
    for index in range(2, 6):
        arm.playback.listen(contract.commands[:1])
        arm.playback.control.change(measured_ns=index * PERIOD_NS - PERIOD_NS // 2)
        assert arm.playback.tick(index * PERIOD_NS).command is not None


def test_joints_that_hear_nothing_and_whose_place_is_unknown_are_not_commanded():
    arm = half_heard()
    arm.playback.control.change(measured=None)
    tick = arm.playback.tick(5 * PERIOD_NS)
    assert tick.command is None
    assert tick.interventions == (SENSOR_AGE,)


def test_an_unreadable_joint_that_hears_nothing_is_not_told_to_stay():
    arm = half_heard(fallback="repeat_last")
    arm.queue.clear()
    assert arm.playback.tick(5 * PERIOD_NS).source is CommandSource.REPEAT_LAST
    arm.playback.control.change(measured=np.array([np.nan, 0.5]))
    tick = arm.playback.tick(6 * PERIOD_NS)
    assert (tick.command, tick.interventions) == (None, (NON_FINITE,))


def test_efforts_that_nobody_hears_stay_a_step_from_zero():
    arm = half_heard("effort")
    assert arm.playback.tick(5 * PERIOD_NS).command == pytest.approx([MAX_STEP, 6 * MAX_STEP])


def left_and_moved(fallback: str, away_s: float, contract: Contract | None = None) -> Arm:
    """An arm led to 0.8; its controller leaves, the arm is pushed to -0.8, and the controller comes back."""
    arm = Arm(fallback, contract=contract)
    arm.feed(np.stack([np.linspace(0.1, 0.8, 8)] * 2, axis=1).astype(np.float32))
    for index in range(8):
        arm.playback.control.change(measured=arm.playback.tick(index * PERIOD_NS).command)
    arm.playback.listen(arm.playback.rules.contract.commands)
    arm.playback.control.change(measured=np.full(2, -0.8))
    for index in range(8, 8 + round(away_s * 1e9 / PERIOD_NS)):
        arm.playback.tick(index * PERIOD_NS)
    arm.playback.listen([])
    arm.now_ns = (9 + round(away_s * 1e9 / PERIOD_NS)) * PERIOD_NS
    return arm


@pytest.mark.parametrize("away_s", [0.1, 1.0, 2.5, 10.0])
@pytest.mark.parametrize("fallback", ["hold", "repeat_last"])
def test_a_controller_that_comes_back_hears_no_jump_from_a_robot_that_had_nothing_to_execute(
    fallback: str, away_s: float
):
    arm = left_and_moved(fallback, away_s)
    first = arm.playback.tick(arm.now_ns).command
    if first is not None:
        assert first == pytest.approx([-0.8, -0.8])
    arm.feed(np.full((5, 2), 0.8, np.float32), arm.now_ns)
    command = arm.playback.tick(arm.now_ns + PERIOD_NS).command
    assert command == pytest.approx([-0.8 + MAX_STEP] * 2)


@pytest.mark.parametrize("fallback", ["hold", "repeat_last"])
def test_a_controller_that_comes_back_hears_no_jump_on_the_way_home(fallback: str):
    document = contract_document() | {"home": {"positions": [0.0, 0.0], "duration_s": 3.0}}
    arm = left_and_moved(fallback, 1.0, parse_document(document, Contract, "test.yaml"))
    arm.playback.control.change(halted=True, wants_home=True)
    tick = arm.playback.tick(arm.now_ns)
    assert tick.source is CommandSource.HOMING
    assert np.abs(tick.command + 0.8).max() <= MAX_STEP


@pytest.mark.parametrize(("measured_ns", "is_known"), [(2 * PERIOD_NS - 1, False), (2 * PERIOD_NS, True)])
def test_a_forgotten_command_is_followed_for_a_period_and_only_then_a_measurement_counts(
    measured_ns: int, is_known: bool
):
    arm = Arm()
    arm.feed(np.full((3, 2), 0.05, np.float32))
    arm.playback.tick(PERIOD_NS)
    arm.playback.control.change(forget=True, measured=np.full(2, 0.02), measured_ns=measured_ns)
    tick = arm.playback.tick(2 * PERIOD_NS)
    assert (tick.command is not None) == is_known
    assert tick.interventions == (() if is_known else (SENSOR_AGE,))


@pytest.mark.parametrize(("silence_ns", "begin"), [(MAX_AGE_NS, 0.05), (MAX_AGE_NS + 1, 0.02)])
def test_a_command_says_where_the_arm_is_for_as_long_as_an_action_may_be_old(silence_ns: int, begin: float):
    arm = Arm(given_up_after_ns=2 * MAX_AGE_NS)
    arm.feed(np.full((1, 2), 0.05, np.float32))
    arm.playback.tick(0)
    arm.playback.control.change(measured=np.full(2, 0.02))
    arm.feed(np.full((1, 2), 0.9, np.float32), capture_ns=silence_ns)
    assert arm.playback.tick(silence_ns).command == pytest.approx([begin + MAX_STEP] * 2)


@pytest.mark.parametrize(("measured_ns", "is_known"), [(2 * PERIOD_NS - 1, False), (2 * PERIOD_NS, True)])
def test_after_a_long_silence_a_measurement_counts_if_the_last_command_was_reached_by_then(
    measured_ns: int, is_known: bool
):
    arm = Arm(given_up_after_ns=3 * MAX_AGE_NS, max_sensor_age_ns=2 * MAX_AGE_NS)
    arm.feed(np.full((1, 2), 0.05, np.float32))
    arm.playback.tick(PERIOD_NS)
    arm.playback.control.change(measured=np.full(2, 0.02), measured_ns=measured_ns)
    now_ns = PERIOD_NS + MAX_AGE_NS + 1
    arm.feed(np.full((1, 2), 0.05, np.float32), capture_ns=now_ns)
    assert (arm.playback.tick(now_ns).command is not None) == is_known


@pytest.mark.parametrize(("age_ns", "is_known"), [(ns(0.5), True), (ns(0.5) + 1, False)])
def test_a_measurement_counts_up_to_the_sensors_age_bound(age_ns: int, is_known: bool):
    arm = Arm()
    arm.playback.control.change(measured=np.zeros(2), measured_ns=ns(1) - age_ns)
    arm.feed(make_rows(1), capture_ns=ns(1))
    assert (arm.playback.tick(ns(1)).command is not None) == is_known


def test_a_joint_may_be_behind_by_its_way_since_it_was_measured():
    """At full speed: half a radian in the time that it may lag, 0.8 in 0.4 s more."""
    arm = Arm()
    arm.feed(np.full((30, 2), 0.9, np.float32), capture_ns=ns(1))
    for index in range(10):
        now_ns = ns(1) + index * PERIOD_NS
        measured = np.full(2, 0.9 * index / 10 - 0.2)
        arm.playback.control.change(measured=measured, measured_ns=now_ns)
        arm.playback.tick(now_ns)
    arm.playback.control.change(measured=np.full(2, -0.3), measured_ns=now_ns)
    arm.playback.tick(now_ns + ns(0.4))
    assert arm.playback.not_following == ()
    arm.playback.control.change(measured=np.full(2, -0.5), measured_ns=now_ns)
    arm.playback.tick(now_ns + ns(0.4))
    assert set(arm.playback.not_following) == set(JOINTS)


def lagging(arm: Arm) -> Arm:
    """An arm that stands still far from its last command."""
    arm.feed(np.full((20, 2), 0.9, np.float32))
    for index in range(10):
        arm.playback.tick(index * PERIOD_NS)
    assert set(arm.playback.not_following) == set(JOINTS)
    return arm


def test_a_paused_arm_need_not_follow():
    """Somebody may move it by hand."""
    arm = lagging(Arm())
    arm.playback.control.change(paused=True)
    arm.playback.tick(10 * PERIOD_NS)
    assert arm.playback.not_following == ()
    arm.playback.control.change(measured=np.full(2, -0.9))
    arm.playback.tick(11 * PERIOD_NS)
    assert arm.playback.not_following == ()


def test_after_a_reset_an_arm_that_did_not_follow_is_led_on_from_where_it_is():
    arm = lagging(Arm())
    arm.playback.control.change(forget=True, measured=np.zeros(2), measured_ns=10 * PERIOD_NS)
    assert arm.playback.tick(10 * PERIOD_NS).command == pytest.approx([MAX_STEP] * 2)
    assert arm.playback.not_following == ()


def test_an_arm_that_did_not_follow_is_not_tried_again_while_nobody_measures_it():
    arm = lagging(Arm())
    arm.playback.control.change(measured=None)
    tick = arm.playback.tick(9 * PERIOD_NS + RETRY_NS)
    assert (tick.command, tick.interventions) == (None, (FOLLOWING_ERROR,))


@pytest.mark.parametrize(("measured_ns", "counts"), [(PERIOD_NS - 1, False), (PERIOD_NS, True)])
def test_one_joint_that_did_not_follow_is_not_led_back_to_where_it_was_before_the_last_command(
    measured_ns: int, counts: bool
):
    """It may have obeyed since: the drives may have come back."""
    arm = Arm("repeat_last")
    arm.feed(np.full((1, 2), MAX_STEP, np.float32))
    arm.playback.tick(0)
    measured = np.array([-0.9, MAX_STEP])
    arm.playback.control.change(measured=measured, measured_ns=measured_ns)
    tick = arm.playback.tick(measured_ns + 3 * PERIOD_NS)
    assert arm.playback.not_following == (JOINTS[0],)
    assert tick.interventions == (FOLLOWING_ERROR,)
    if counts:  # one step of the way
        assert tick.command == pytest.approx([0.0, MAX_STEP])
    else:
        assert tick.command is None


def test_where_nothing_is_queued_no_position_is_missed():
    arm = Arm()
    arm.playback.control.change(measured=None)
    arm.playback.tick(0)
    assert arm.playback.starved == "queue empty"
    assert arm.guard.counts[SENSOR_AGE] == 0


def test_one_joint_that_does_not_follow_stops_all():
    arm = Arm()
    arm.feed(np.full((20, 2), 0.9, np.float32))
    for index in range(10):
        arm.playback.control.change(measured=np.array([0.0, 0.1 * index]))
        tick = arm.playback.tick(index * PERIOD_NS)
    assert arm.playback.not_following == (JOINTS[0],)
    assert tick.interventions == (FOLLOWING_ERROR,)
    before, tick = tick, arm.playback.tick(10 * PERIOD_NS)
    assert tick.command == pytest.approx([before.command[0] - MAX_STEP, before.command[1]]), "it is led back"
