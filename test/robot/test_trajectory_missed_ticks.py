# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Trajectory controllers go on in ticks that the node has missed: where it finds them, and how it goes on."""

from __future__ import annotations

import numpy as np
import pytest

from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.estimate import CATCH_UP_SCALE
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.queue.action_queue import ActionQueue
from remote_inference.robot.safety.guard import JOINT_LIMIT, VELOCITY_LIMIT
from support.builders import FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY, MAX_STEP, PERIOD_NS, make_rows, ns
from support.robot.playbacks import MAX_AGE_NS
from support.robot.played_trajectory import (
    GIVEN_UP_AFTER_NS,
    feed,
    horizon_of,
    make_playback,
    stalled,
)


def test_rows_that_the_controller_executed_in_missed_periods_are_left_out():
    """Executing them again would drive the arm back."""
    queue = ActionQueue()
    feed(queue, make_rows(10))
    playback = make_playback(queue)
    playback.tick(0)
    tick = playback.tick(4 * PERIOD_NS)  # three periods without a tick
    assert tick.command == pytest.approx(make_rows(10)[4])
    assert tick.interventions == ()  # the step is taken from where the controller is by now
    assert queue.executed == 5
    assert playback.tick(8 * PERIOD_NS).command == pytest.approx(make_rows(10)[8]), "each time anew"


@pytest.mark.parametrize("ticks_per_row", [1, 2])
def test_rows_of_missed_periods_were_executed_when_the_controller_began_them(ticks_per_row: int):
    """A picture that came among them is followed by the others."""
    queue = ActionQueue()
    feed(queue, make_rows(10, step=0.1 * MAX_STEP))
    playback = make_playback(queue, ticks_per_row=ticks_per_row, given_up_after_ns=MAX_AGE_NS)
    playback.tick(0)
    playback.tick(4 * PERIOD_NS)
    playback.tick(8 * PERIOD_NS)
    begun_ns = {str(tick): tick * PERIOD_NS for tick in range(9)}
    found = queue.executed_by(begun_ns)
    assert found == {str(tick): 1 + tick // ticks_per_row for tick in range(9)}


@pytest.mark.parametrize(("periods", "row"), [(2.5, 1.5), (3.0, 2.0), (3.5, 2.0), (5.0, 2.0), (7.0, 2.0)])
def test_a_controller_goes_along_its_rows_to_the_last_one_and_stays_there(periods: float, row: float):
    queue = ActionQueue()
    feed(queue, make_rows(3, step=MAX_STEP))
    playback = make_playback(queue, given_up_after_ns=MAX_AGE_NS)
    playback.tick(0)
    playback.control.change(paused=True)
    tick = playback.tick(round(periods * PERIOD_NS))
    assert tick.source is CommandSource.HOLD
    assert tick.command == pytest.approx([row * MAX_STEP, -row * MAX_STEP])


def test_points_between_rows_that_the_controller_executed_in_missed_periods_are_left_out():
    queue = ActionQueue()
    feed(queue, make_rows(10, step=0.05))
    playback = make_playback(queue, ticks_per_row=5, given_up_after_ns=MAX_AGE_NS)
    promised = horizon_of(playback.tick(0))
    assert promised[:, 0] == pytest.approx(0.01 * np.arange(46))
    tick = playback.tick(8 * PERIOD_NS)
    assert tick.command == pytest.approx(promised[8])
    assert tick.queued is not None
    assert (tick.queued.step_index, tick.row_fraction, tick.interventions) == (1, 0.6, ())
    assert queue.executed == 2


def test_clamps_of_rows_that_the_controller_executed_by_itself_are_counted():
    queue = ActionQueue()
    feed(queue, np.array([[0.0, 0.0], [0.5, 0.0], [0.5, -5.0], [0.0, 0.0], [0.0, 0.0]], np.float32))
    playback = make_playback(queue)
    playback.tick(0)
    counts = playback.rules.guard.counts
    assert (counts[VELOCITY_LIMIT], counts[JOINT_LIMIT]) == (0, 0)
    playback.tick(4 * PERIOD_NS)  # the rows 1 to 3 were executed without a tick
    assert (counts[VELOCITY_LIMIT], counts[JOINT_LIMIT]) == (3, 1)


def test_a_tick_that_is_a_little_late_leaves_nothing_out():
    queue = ActionQueue()
    feed(queue, make_rows(10))
    playback = make_playback(queue)
    playback.tick(0)
    assert playback.tick(round(1.4 * PERIOD_NS)).command == pytest.approx(make_rows(10)[1])


@pytest.mark.parametrize(("periods", "row"), [(3.88, 3), (3.92, 4)])
def test_a_tick_may_come_too_early_by_a_tenth_of_a_period(periods: float, row: int):
    queue = ActionQueue()
    feed(queue, make_rows(10))
    playback = make_playback(queue)
    playback.tick(0)
    assert playback.tick(round(periods * PERIOD_NS)).command == pytest.approx(make_rows(10)[row])


def test_rows_of_missed_periods_are_executed_late_where_no_controller_went_on():
    """A forward controller held its target meanwhile: leaving rows out would command a jump."""
    queue = ActionQueue()
    feed(queue, make_rows(10))
    playback = make_playback(queue, types=(FLOAT64_MULTI_ARRAY, FLOAT64_MULTI_ARRAY))
    playback.tick(0)
    assert playback.tick(4 * PERIOD_NS).command == pytest.approx(make_rows(10)[1])


def test_a_forward_controlled_joint_steps_on_from_where_it_stayed():
    rows = make_rows(10, step=MAX_STEP)
    queue = ActionQueue()
    feed(queue, rows)
    playback = make_playback(queue, types=(JOINT_TRAJECTORY, FLOAT64_MULTI_ARRAY))
    playback.tick(0)
    command = playback.tick(4 * PERIOD_NS).command
    assert command == pytest.approx([4 * MAX_STEP, -MAX_STEP])


@pytest.mark.parametrize("paused", [False, True])
def test_after_a_stall_in_which_the_watchdog_may_act_nothing_is_commanded_before_the_arm_is_measured(
    paused: bool,
):
    playback = stalled()
    thaw_ns = ns(1.0)
    playback.control.change(paused=paused)
    assert playback.tick(thaw_ns).command is None
    playback.control.change(measured=np.full(2, 0.2), measured_ns=thaw_ns - 1)
    assert playback.tick(thaw_ns + PERIOD_NS).command is None, "it may have moved on since"
    playback.control.change(measured=np.full(2, 0.2), measured_ns=thaw_ns + PERIOD_NS)
    tick = playback.tick(thaw_ns + 2 * PERIOD_NS)
    step = 0.0 if paused else CATCH_UP_SCALE * MAX_STEP
    assert tick.source is (CommandSource.HOLD if paused else CommandSource.CHUNK)
    assert horizon_of(tick)[0] == pytest.approx([0.2 + step, 0.2 - step])
    assert tick.late_ns >= PERIOD_NS, "it may have gone on since it was measured"
    assert (tick.late_ns > PERIOD_NS) is paused, "a hold has the time of the way from the row by now"


@pytest.mark.parametrize("paused", [False, True])
def test_the_first_tick_after_some_that_were_missed_waits_for_what_was_heard_meanwhile(paused: bool):
    """A watchdog to which beats were lost before may have stopped the arm, and its word be on the way."""
    queue = ActionQueue()
    feed(queue, make_rows(20, step=0.4 * MAX_STEP))
    playback = make_playback(queue, late_after_ns=2 * PERIOD_NS)
    playback.tick(0)
    playback.control.change(paused=paused)
    late = playback.tick(4 * PERIOD_NS)
    assert (late.command, late.in_force) == (None, True), "the controllers go on along their rows"
    after = playback.tick(5 * PERIOD_NS)
    assert after.command == pytest.approx(make_rows(20, step=0.4 * MAX_STEP)[4 if paused else 5])
    assert not after.in_force


@pytest.mark.parametrize(("unheard_ns", "waits"), [(ns(0.05), False), (ns(0.05) + 1, True)])
def test_a_tick_waits_once_while_nothing_is_heard(unheard_ns: int, waits: bool):
    """A node that stood still between two ticks may have been stopped meanwhile, and makes no tick late."""
    queue = ActionQueue()
    feed(queue, make_rows(20, step=0.4 * MAX_STEP))
    playback = make_playback(queue, late_after_ns=2 * PERIOD_NS)

    def tick(number: int) -> Tick:
        return playback.tick(number * PERIOD_NS, number * PERIOD_NS - unheard_ns)

    assert tick(0).command is not None, "nothing was commanded before that could have been stopped"
    deaf = tick(1)
    assert (deaf.command is None, deaf.in_force) == (waits, waits), "the controllers go on along their rows"
    assert tick(2).command is not None, "two would let the arm end its rows"


def test_a_robot_that_was_stopped_in_the_ticks_it_missed_is_held_where_it_is_measured():
    queue = ActionQueue()
    feed(queue, make_rows(20, step=0.4 * MAX_STEP))
    playback = make_playback(queue, late_after_ns=2 * PERIOD_NS)
    playback.tick(0)
    playback.tick(4 * PERIOD_NS)
    playback.control.change(paused=True, lose=True, measured=np.full(2, 0.05), measured_ns=5 * PERIOD_NS)
    assert playback.tick(5 * PERIOD_NS).command == pytest.approx([0.05, 0.05])


def test_a_robot_that_was_commanded_nothing_does_not_wait_after_missed_ticks():
    queue = ActionQueue()
    playback = make_playback(queue, late_after_ns=2 * PERIOD_NS)
    playback.tick(0)
    feed(queue, make_rows(20))
    assert playback.tick(4 * PERIOD_NS).command is not None


def test_clamps_of_rows_that_nobody_saw_executed_are_not_counted():
    queue = ActionQueue()
    feed(queue, np.full((30, 2), 0.9, np.float32))
    playback = make_playback(queue)
    playback.control.change(measured=np.zeros(2), measured_ns=0)
    playback.tick(0)
    assert playback.rules.guard.counts[VELOCITY_LIMIT] == 1
    playback.tick(ns(1.0))
    assert playback.rules.guard.counts[VELOCITY_LIMIT] == 1


def test_a_stall_shorter_than_the_watchdog_s_patience_costs_the_reference_nothing():
    playback = stalled()
    tick = playback.tick(GIVEN_UP_AFTER_NS)
    assert tick.source is CommandSource.CHUNK
    assert tick.command == pytest.approx([0.2, -0.2])


def test_controllers_that_another_has_stopped_are_held_where_they_were_measured_since():
    """The watchdog may have heard no beat of a thread that never stood still."""
    queue = ActionQueue()
    feed(queue, make_rows(20, step=0.4 * MAX_STEP))
    playback = make_playback(queue)
    for index in range(8):
        playback.tick(index * PERIOD_NS)
    playback.control.change(paused=True, lose=True, measured=np.array([0.1, -0.1]), measured_ns=7 * PERIOD_NS)
    assert playback.tick(8 * PERIOD_NS).command is None
    playback.control.change(measured=np.array([0.1, -0.1]), measured_ns=9 * PERIOD_NS)
    assert playback.tick(9 * PERIOD_NS).command == pytest.approx([0.1, -0.1])


@pytest.mark.parametrize(("measured_ns", "trusted"), [(PERIOD_NS - 1, False), (PERIOD_NS, True)])
def test_a_step_from_the_measured_position_waits_until_the_last_command_is_reached(
    measured_ns: int, trusted: bool
):
    """At low rates the arm is far on its way to it when it is measured in between."""
    queue = ActionQueue()
    feed(queue, make_rows(10, step=MAX_STEP))
    playback = make_playback(queue)
    playback.tick(0)
    playback.control.change(forget=True, measured=np.full(2, 0.5), measured_ns=measured_ns)
    tick = playback.tick(PERIOD_NS)
    assert tick.source is (CommandSource.CHUNK if trusted else CommandSource.HOLD)
    assert tick.command == pytest.approx([0.4, 0.4] if trusted else [0.0, 0.0])


def test_no_row_is_left_out_before_the_controller_has_reached_it():
    queue = ActionQueue()
    feed(queue, make_rows(10))
    playback = make_playback(queue)
    playback.tick(0)
    assert playback.tick(round(1.8 * PERIOD_NS)).command == pytest.approx(make_rows(10)[1])


@pytest.mark.parametrize("late", [1.4, 1.9, 3.25, 3.85])  # periods since the last tick
@pytest.mark.parametrize("paused", [False, True])
def test_a_late_command_begins_where_the_controller_is_between_two_rows(late: float, paused: bool):
    """From the row that it has passed it would be too far if the policy turns back."""
    queue = ActionQueue()
    rows = make_rows(10, step=MAX_STEP)
    feed(queue, rows)
    playback = make_playback(queue)
    playback.tick(0)
    queue.clear()
    feed(queue, np.full((10, 2), -1.0, np.float32))
    playback.control.change(paused=paused)
    command = playback.tick(round(late * PERIOD_NS)).command
    assert command is not None
    there = MAX_STEP * (late - 1.0)
    assert command[0] == pytest.approx(there if paused else there - MAX_STEP)


def test_a_controller_goes_on_while_nothing_can_be_commanded_and_the_next_step_begins_where_it_is():
    """Another may have stopped it, and nobody measures its joints: a hold could lead them anywhere."""
    queue = ActionQueue()
    feed(queue, make_rows(30, step=0.5 * MAX_STEP))
    playback = make_playback(queue)
    playback.control.change(measured=np.zeros(2), measured_ns=0)
    playback.tick(0)
    playback.control.change(measured=None, lose=True)
    for index in range(1, 5):
        assert playback.tick(index * PERIOD_NS).command is None
    playback.control.change(measured=np.array([0.15, -0.15]), measured_ns=4 * PERIOD_NS)
    command = playback.tick(5 * PERIOD_NS).command
    assert command is not None
    assert command[0] == pytest.approx(0.15 + CATCH_UP_SCALE * MAX_STEP), "on to the row whose time it is"
    assert queue.executed == 6


def test_a_step_from_the_measured_position_waits_for_the_rows_that_a_controller_executed_in_a_stall():
    queue = ActionQueue()
    feed(queue, make_rows(30, step=0.5 * MAX_STEP))
    playback = make_playback(queue)
    playback.tick(0)
    late_ns = 4 * PERIOD_NS
    playback.control.change(forget=True, measured=np.full(2, 0.05), measured_ns=2 * PERIOD_NS)
    tick = playback.tick(late_ns)
    assert tick.source is CommandSource.HOLD
    assert tick.command == pytest.approx([0.15, -0.15]), "where the controller is by now"


def test_a_step_from_the_measured_position_waits_for_the_rows_that_a_hold_has_ended():
    """The controller went along them until the hold, and so did the joints after they were measured."""
    queue = ActionQueue()
    feed(queue, make_rows(30, step=0.5 * MAX_STEP))
    playback = make_playback(queue)
    playback.tick(0)
    playback.control.change(forget=True, measured=np.full(2, 0.05), measured_ns=2 * PERIOD_NS)
    assert playback.tick(4 * PERIOD_NS).source is CommandSource.HOLD
    playback.control.change(measured=np.full(2, 0.1), measured_ns=3 * PERIOD_NS)
    assert playback.tick(5 * PERIOD_NS).source is CommandSource.HOLD
    playback.control.change(measured=np.full(2, 0.15), measured_ns=4 * PERIOD_NS)
    assert playback.tick(6 * PERIOD_NS).source is CommandSource.CHUNK


def test_clamps_of_rows_that_a_controller_executes_while_nothing_can_be_commanded_are_counted_once():
    queue = ActionQueue()
    feed(queue, np.full((8, 2), [0.9, 0.0], np.float32))
    playback = make_playback(queue)
    playback.control.change(measured=np.zeros(2), measured_ns=0)
    playback.tick(0)
    playback.control.change(measured=None, lose=True)
    for index in range(1, 5):
        assert playback.tick(index * PERIOD_NS).command is None
        assert playback.rules.guard.counts[VELOCITY_LIMIT] == index


FAST_NS = ns(0.01)


@pytest.mark.parametrize(("age_ns", "counts"), [(ns(0.05), True), (ns(0.05) + 1, False)])
def test_at_a_high_rate_a_measurement_of_two_rounds_of_the_worker_says_where_a_moving_arm_is(
    age_ns: int, counts: bool
):
    """Nobody measures more often, and controllers that may have been stopped may go on along their rows."""
    queue = ActionQueue()
    feed(queue, make_rows(100, step=0.001))
    playback = make_playback(queue, fps=100.0)
    playback.tick(0)
    playback.control.change(lose=True, measured=None)
    for number in range(1, 20):
        assert playback.tick(number * FAST_NS).in_force
    now_ns = 20 * FAST_NS
    playback.control.change(measured=np.zeros(2), measured_ns=now_ns - age_ns)
    assert (playback.tick(now_ns).command is not None) == counts
