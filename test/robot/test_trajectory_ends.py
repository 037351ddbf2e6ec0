# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""At each stop a trajectory is ended where its controller is; nothing else holds it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from remote_inference.base.contract.controller_stop import STOPS
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.command_mode import HumanCommands
from remote_inference.robot.queue.action_queue import ActionQueue
from remote_inference.robot.safety.guard import SENSOR_AGE
from remote_inference.robot.safety.measurement_gate import FIRST_S
from support.builders import JOINT_TRAJECTORY, MAX_STEP, PERIOD_NS, make_contract, make_rows, ns
from support.robot.played_arm import Arm
from support.robot.played_trajectory import feed, horizon_of, make_playback, stalled


def test_a_trajectory_controller_that_comes_back_is_held_where_its_joints_are():
    queue = ActionQueue()
    feed(queue, make_rows(4, step=MAX_STEP))
    playback = make_playback(queue)
    playback.tick(0)
    playback.tick(PERIOD_NS)
    playback.listen(playback.rules.contract.commands)
    playback.control.change(paused=True, measured=np.full(2, -0.8))
    playback.tick(2 * PERIOD_NS)
    playback.listen([])
    tick = playback.tick(3 * PERIOD_NS)
    assert tick.source is CommandSource.HOLD
    assert tick.command == pytest.approx([-0.8, -0.8])


@pytest.mark.parametrize("stop", ["pause", "halt", "reset", "queue ends"])
def test_a_trajectory_is_ended_by_the_last_command_whatever_stops_the_robot(stop: str):
    """Silence would let the controller go on along what it was handed."""
    queue = ActionQueue()
    feed(queue, make_rows(1 if stop == "queue ends" else 10))
    playback = make_playback(queue)
    last = playback.tick(0).command
    if stop == "pause":
        playback.control.change(paused=True)
    elif stop == "halt":
        playback.control.change(halted=True)
    elif stop == "reset":
        queue.clear()
        playback.control.change(forget=True)
    ticks = [playback.tick(index * PERIOD_NS) for index in range(1, 41)]
    assert [tick.source for tick in ticks] == [CommandSource.HOLD] * STOPS + [CommandSource.NONE] * (
        40 - STOPS
    )
    for tick in ticks[:STOPS]:
        assert horizon_of(tick) == pytest.approx(np.stack([last]))


def test_after_a_hiccup_and_a_pause_the_arm_is_held_where_the_controller_brought_it():
    queue = ActionQueue()
    feed(queue, make_rows(10))
    playback = make_playback(queue)
    playback.tick(0)
    playback.control.change(paused=True)
    assert playback.tick(4 * PERIOD_NS).command == pytest.approx(make_rows(10)[3])


def test_a_trajectory_that_cannot_be_ended_yet_counts_as_a_command_until_it_is_over():
    """A node that dies now leaves it to the watchdog, which must not believe that nothing is in force.

    It is over some ticks after its last row: an arm that stopped on the way is told where it is, if it is
    measured in time.
    """
    playback = stalled()  # of 30 rows
    playback.control.change(paused=True)
    assert playback.tick(ns(1.0)).in_force
    in_force = [playback.tick(ns(1.5) + index * PERIOD_NS).in_force for index in range(40)]
    waits = math.ceil(ns(0.5 + FIRST_S) / PERIOD_NS)  # as long as a measurement counts, and is confirmed
    assert in_force == [True] * (waits - 1) + [False] * (41 - waits)


def test_a_process_that_stood_still_waits_for_a_measurement_though_its_rows_have_ended():
    playback = stalled()
    playback.control.change(paused=True)
    for index in range(3):
        assert playback.tick(ns(5.0) + index * PERIOD_NS).interventions == (SENSOR_AGE,)
    at_ns = ns(5.0) + 3 * PERIOD_NS
    playback.control.change(measured=np.full(2, 0.2), measured_ns=at_ns)
    assert playback.tick(at_ns).command == pytest.approx([0.2, 0.2])


@pytest.mark.parametrize("unseen_for", [0, 4])  # ticks
def test_the_others_are_held_where_their_rows_brought_them_while_a_controller_is_away(unseen_for: int):
    """A step from where they were measured some time ago would lead them back."""
    queue = ActionQueue()
    feed(queue, make_rows(30, step=0.4 * MAX_STEP))
    playback = make_playback(queue)
    for index in range(8):
        playback.tick(index * PERIOD_NS)
    playback.listen(playback.rules.contract.commands[:1])
    playback.control.change(forget=True, measured=None)
    for index in range(8, 8 + unseen_for):
        tick = playback.tick(index * PERIOD_NS)
        assert (tick.source, tick.in_force) == (CommandSource.HOLD, True), "the one that is away goes on"
    now_ns = (8 + unseen_for) * PERIOD_NS
    playback.control.change(measured=np.array([0.1, -0.1]), measured_ns=now_ns - 3 * PERIOD_NS)
    command = playback.tick(now_ns).command
    assert command is not None
    assert command[1] == pytest.approx(-7 * 0.4 * MAX_STEP)


def test_a_horizon_is_ended_however_many_ticks_the_first_measurement_takes():
    """Nobody else ends it where there is no watchdog."""
    period_ns = ns(0.002)
    playback = stalled(period_ns=period_ns, fps=500.0)
    playback.control.change(paused=True)
    for index in range(2 * STOPS):
        tick = playback.tick(ns(1.0) + index * period_ns)
        assert (tick.command, tick.interventions) == (None, (SENSOR_AGE,))
        assert playback.rules.guard.counts[SENSOR_AGE] == index + 1
    at_ns = ns(1.0) + 2 * STOPS * period_ns
    playback.control.change(measured=np.full(2, 0.2), measured_ns=at_ns)
    assert playback.tick(at_ns).command == pytest.approx([0.2, 0.2])


def test_an_unreadable_joint_is_not_held():
    playback = stalled()
    playback.control.change(paused=True, measured=np.array([np.nan, 0.2]), measured_ns=ns(1.0))
    tick = playback.tick(ns(1.0))
    assert tick.command is not None
    assert (tick.ends, tick.interventions, tick.in_force) == (("elbow/commands",), (SENSOR_AGE,), True)
    assert tick.command[1] == 0.2


def test_an_arm_outside_its_limits_is_held_where_it_is():
    """A stop leads nobody anywhere; actions, a person and the way home lead back by single steps."""
    queue = ActionQueue()
    feed(queue, np.full((4, 2), 0.5, np.float32))
    playback = make_playback(queue)
    playback.control.change(measured=np.array([1.3, 0.5]))
    assert playback.tick(0).command == pytest.approx([1.2, 0.5])
    playback.control.change(paused=True)
    for index in range(1, 4):
        tick = playback.tick(index * PERIOD_NS)
        assert (tick.source, tick.interventions) == (CommandSource.HOLD, ())
        assert tick.command == pytest.approx([1.2, 0.5])


def test_a_halted_robot_that_nobody_measures_is_finished_when_its_horizon_is_over():
    playback = stalled()  # of 30 rows
    playback.control.change(halted=True)
    for now_ns in (ns(1.0), ns(1.5) - 1):
        playback.tick(now_ns)
        assert not playback.finished
    playback.tick(ns(1.5))
    assert playback.finished


def test_nothing_is_held_that_was_never_commanded():
    playback = make_playback(ActionQueue())
    playback.control.change(paused=True)
    assert playback.tick(0).command is None


def test_when_a_command_has_ended_the_rows_a_measurement_counts_as_soon_as_that_one_was_reached():
    queue = ActionQueue()
    feed(queue, make_rows(10))
    playback = make_playback(queue)
    playback.tick(0)
    playback.control.change(paused=True)
    assert playback.tick(PERIOD_NS).source is CommandSource.HOLD
    playback.control.change(paused=False, forget=True, measured=np.full(2, 0.05), measured_ns=2 * PERIOD_NS)
    assert playback.tick(3 * PERIOD_NS).source is CommandSource.CHUNK


def test_a_person_goes_on_from_a_hold_wherever_the_arm_was_measured_before_it():
    """The hold says where it is, and nothing has moved it since."""
    human = HumanCommands(silent_s=1.0)
    arm = Arm(contract=make_contract(command=JOINT_TRAJECTORY), human=human)
    arm.feed(make_rows(1))
    arm.playback.control.change(measured=np.zeros(2), measured_ns=0)
    sources = [arm.playback.tick(index * PERIOD_NS).source for index in range(2)]
    assert sources == [CommandSource.CHUNK, CommandSource.HOLD]
    human.deposit(np.full(2, 0.05), 2 * PERIOD_NS)
    arm.playback.control.change(taken_over=True)
    assert arm.playback.tick(2 * PERIOD_NS).source is CommandSource.HUMAN
