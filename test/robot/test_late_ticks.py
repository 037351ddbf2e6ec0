# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Control ticks that come late or stand still: whether they leave, what goes on meanwhile, what is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.command_mode import HumanCommands
from remote_inference.robot.motion.estimate import CATCH_UP_SCALE, WAIT_NS
from remote_inference.robot.motion.select import AGED_OUT
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.watchdog import EXECUTOR_STALE_NS
from support.builders import FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY, MAX_STEP, make_contract, ns
from support.robot.fed_playback import FedPlayback

LATE_AFTER_NS, GIVEN_UP_AFTER_NS = ns(0.1), ns(0.4)
LATE_NS = LATE_AFTER_NS + 1
ROW = [0.01, 0.01]


def robot(
    kind: str = "position", fps: float = 50.0, command: str = FLOAT64_MULTI_ARRAY, **options: Any
) -> FedPlayback:
    times = {"late_after_ns": LATE_AFTER_NS, "given_up_after_ns": GIVEN_UP_AFTER_NS}
    fallback = "zero" if kind == "velocity" else "hold"
    found = FedPlayback(make_contract(kind, fps, command=command), fallback, **times | options)
    found.measure([0.0, 0.0])
    return found


def tick_of(source: CommandSource, **changes: Any) -> Tick:
    return Tick(**{"command": np.zeros(2), "source": source} | changes)


# -- whether a tick may leave --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fps", "command", "bound_ns"),
    [
        (20.0, FLOAT64_MULTI_ARRAY, EXECUTOR_STALE_NS),
        (200.0, FLOAT64_MULTI_ARRAY, EXECUTOR_STALE_NS),
        (5.0, JOINT_TRAJECTORY, EXECUTOR_STALE_NS),  # what goes on meanwhile would be led back
        (20.0, JOINT_TRAJECTORY, 25_000_000),
        (500.0, JOINT_TRAJECTORY, 5_000_000),
    ],
)
def test_what_leads_a_robot_leaves_within_a_time_or_not_at_all(fps: float, command: str, bound_ns: int):
    playback = robot(fps=fps, command=command).playback
    for source in (CommandSource.CHUNK, CommandSource.HUMAN, CommandSource.HOMING, CommandSource.HOLD):
        assert not playback.is_outdated(tick_of(source), bound_ns)
        assert playback.is_outdated(tick_of(source), bound_ns + 1)


def test_a_hold_that_is_decided_for_the_last_time_leaves_until_the_watchdog_has_stopped_the_robot():
    playback = robot(command=JOINT_TRAJECTORY).playback
    for source, bound_ns in [(CommandSource.HOLD, GIVEN_UP_AFTER_NS), (CommandSource.CHUNK, 10_000_000)]:
        assert not playback.is_outdated(tick_of(source), bound_ns, is_last_try=True)
        assert playback.is_outdated(tick_of(source), bound_ns + 1, is_last_try=True)


@pytest.mark.parametrize(
    "tick",
    [
        tick_of(CommandSource.ZERO),
        tick_of(CommandSource.CHUNK, shadow=True),
        tick_of(CommandSource.NONE, command=None),
    ],
    ids=["zeros", "shadow", "nothing"],
)
def test_what_leads_no_robot_may_leave_at_any_time(tick: Tick):
    assert not robot().playback.is_outdated(tick, ns(99.0))


# -- what goes on meanwhile, and what is told ----------------------------------------------------------------


def test_a_late_tick_waits_for_no_word_of_a_stop_that_it_has_already():
    arm = robot(command=JOINT_TRAJECTORY)
    arm.append([ROW] * 40)
    arm.tick()
    arm.now_ns += LATE_NS
    arm.playback.control.change(lose=True)
    arm.measure([0.0, 0.0])
    assert arm.tick().source is CommandSource.CHUNK


def test_what_a_person_commanded_goes_on_through_all_of_a_wait():
    human = HumanCommands(9.0)
    base = robot("velocity", human=human)
    base.playback.control.change(taken_over=True)
    human.deposit(np.array(ROW), 0)
    assert base.tick().source is CommandSource.HUMAN
    for _ in range(2):
        tick = base.playback.tick(base.now_ns, base.now_ns - EXECUTOR_STALE_NS - 1)
        base.now_ns += ns(0.01)
        assert (tick.source, tick.in_force) == (CommandSource.NONE, True)
    assert base.tick().source is CommandSource.HUMAN


def test_why_there_was_nothing_to_execute_is_told_of_a_late_tick_too():
    base = robot("velocity", max_action_age_ns=ns(0.15))
    base.append([ROW])
    assert base.tick().source is CommandSource.CHUNK
    base.now_ns += LATE_NS
    assert base.tick().in_force
    assert base.playback.starved == "queue empty"
    base.append([ROW] * 9)
    assert base.tick().source is CommandSource.CHUNK
    base.now_ns += ns(0.2)
    for _ in range(2):
        tick = base.playback.tick(base.now_ns, base.now_ns - EXECUTOR_STALE_NS - 1)
        base.now_ns += ns(0.01)
        assert tick.in_force
        assert base.playback.starved == AGED_OUT, "also in the second tick of the wait"


def test_a_hold_that_did_not_leave_is_decided_anew_without_another_wait():
    arm = robot(command=JOINT_TRAJECTORY)
    arm.append([ROW] * 40)
    arm.tick()

    def tick() -> Tick:
        return arm.playback.tick(arm.now_ns, arm.now_ns - EXECUTOR_STALE_NS - 1)

    assert tick().in_force
    arm.now_ns += WAIT_NS
    arm.playback.control.change(paused=True)
    for _ in range(2):
        assert tick().source is CommandSource.HOLD
        arm.playback.control.change(withhold=True)
        arm.now_ns += arm.period_ns


# -- how fast it goes on -------------------------------------------------------------------------------------


def test_a_person_leads_no_faster_than_a_controller_that_is_behind_can_follow():
    """It has gone on along the policy's rows since the arm was measured."""
    human = HumanCommands(9.0)
    arm = robot(command=JOINT_TRAJECTORY, human=human)
    arm.append([ROW] * 40)
    arm.tick()
    arm.playback.control.change(taken_over=True, lose=True)
    human.deposit(np.array([0.9, 0.9]), arm.now_ns)
    assert arm.tick().command is None, "it is not measured yet"
    age_ns = arm.period_ns // 2
    arm.playback.control.change(measured=np.zeros(2), measured_ns=arm.now_ns - age_ns)
    tick = arm.tick()
    assert (tick.source, tick.late_ns) == (CommandSource.HUMAN, age_ns)
    assert np.abs(tick.command).max() == pytest.approx(CATCH_UP_SCALE * MAX_STEP)
