# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What trajectory controllers are handed: the safe horizon, no more, and an end to it at each stop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.controller_stop import STOPS
from remote_inference.core.documents.document import parse_document
from remote_inference.core.robot.command import CommandSource
from remote_inference.core.robot.motion.blend_in import BlendIn
from remote_inference.core.robot.motion.playback import Playback
from remote_inference.core.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.core.robot.safety.guard import (
    JOINT_LIMIT,
    NON_FINITE,
    SENSOR_AGE,
    VELOCITY_LIMIT,
    Guard,
)
from remote_inference.core.robot.tick import Tick
from support.builders import (
    FLOAT64_MULTI_ARRAY,
    FPS,
    JOINT_TRAJECTORY,
    JOINTS,
    LIMIT,
    MAX_STEP,
    PERIOD_NS,
    contract_document,
    make_rows,
    make_source,
    ns,
)

MAX_AGE_NS = ns(3.0)
GIVEN_UP_AFTER_NS = ns(0.25)


def make_playback(
    queue: ActionQueue,
    *,
    types: tuple[str, str] = (JOINT_TRAJECTORY, JOINT_TRAJECTORY),
    fallback: str = "hold",
    ticks_per_row: int = 1,
    fps: float = FPS,
    given_up_after_ns: int = GIVEN_UP_AFTER_NS,
    late_after_ns: int | None = None,
    blend_in: BlendIn | None = None,
) -> Playback:
    """Return a playback, unpaused at zero, whose two joints go to controllers of these types."""
    document = contract_document(fps=fps / ticks_per_row, ticks_per_row=ticks_per_row)
    document["commands"] = [
        {"topic": f"{name}/commands", "type": kind, "names": [name]}
        for name, kind in zip(JOINTS, types, strict=True)
    ]
    contract = parse_document(document, Contract, "test.contract.yaml")
    guard = Guard(contract.actions, contract.period_s)
    playback = Playback(
        queue,
        guard,
        contract,
        fallback=fallback,
        max_action_age_ns=MAX_AGE_NS,
        max_sensor_age_ns=ns(0.5),
        given_up_after_ns=given_up_after_ns,
        late_after_ns=late_after_ns,
        blend_in=blend_in,
    )
    playback.control.change(paused=False)
    playback.control.change(measured=np.zeros(2))
    return playback


def feed(queue: ActionQueue, rows: np.ndarray, capture_ns: int = 0) -> None:
    source = make_source(capture_ns=capture_ns)
    queue.merge(source, rows, rows, MergeMode.APPEND, latency_steps=0, executed_before=0)


def horizon_of(tick: Tick) -> np.ndarray:
    assert tick.horizon is not None
    assert tick.command is not None
    assert tick.horizon[0] == pytest.approx(tick.command)
    return tick.horizon


def test_each_tick_hands_over_the_command_and_everything_queued_behind_it():
    queue = ActionQueue()
    feed(queue, make_rows(5))
    playback = make_playback(queue)
    assert horizon_of(playback.tick(0)) == pytest.approx(make_rows(5))
    assert horizon_of(playback.tick(PERIOD_NS)) == pytest.approx(make_rows(5)[1:])
    assert len(queue) == 3  # looking ahead takes nothing


def test_other_controllers_get_the_command_alone():
    queue = ActionQueue()
    feed(queue, make_rows(5))
    playback = make_playback(queue, types=(FLOAT64_MULTI_ARRAY, FLOAT64_MULTI_ARRAY))
    assert len(horizon_of(playback.tick(0))) == 1


@pytest.mark.parametrize("capture_ns", [0, ns(100)])
def test_the_horizon_ends_at_the_age_bound(capture_ns: int):
    """Row k is executed k periods from now, and must not be older than the bound then."""
    queue = ActionQueue()
    feed(queue, make_rows(20), capture_ns)
    tick = make_playback(queue).tick(capture_ns + MAX_AGE_NS - 3 * PERIOD_NS)
    assert len(horizon_of(tick)) == 4


def test_a_younger_chunk_behind_an_old_one_does_not_reach_over_the_gap():
    queue = ActionQueue()
    feed(queue, make_rows(4), capture_ns=0)
    feed(queue, make_rows(4), capture_ns=MAX_AGE_NS - PERIOD_NS)
    assert len(horizon_of(make_playback(queue).tick(MAX_AGE_NS - PERIOD_NS))) == 2


def test_the_horizon_is_what_the_next_ticks_command():
    """The guard's clamps included: the controller must not be promised another path."""
    rows = np.array([[0.05, 0.0], [0.9, 0.0], [0.9, -5.0], [0.9, 0.0]], np.float32)
    queue = ActionQueue()
    feed(queue, rows)
    playback = make_playback(queue)
    promised = horizon_of(playback.tick(0))
    executed = [promised[0]] + [playback.tick(index * PERIOD_NS).command for index in (1, 2, 3)]
    assert promised == pytest.approx(np.stack(executed))
    assert promised[1] == pytest.approx([0.05 + MAX_STEP, 0.0])


def test_a_gentle_begin_holds_for_the_rows_ahead_too():
    queue = ActionQueue()
    feed(queue, np.full((4, 2), 0.9, np.float32))
    playback = make_playback(queue, blend_in=BlendIn(0.5, ns(1.0)))
    playback.control.change(blend_in=True)
    horizon = horizon_of(playback.tick(0))
    assert horizon[:, 0] == pytest.approx(0.5 * MAX_STEP * np.arange(1, 5))


def test_clamps_ahead_are_counted_when_they_are_executed_and_once():
    queue = ActionQueue()
    feed(queue, np.array([[0.0, 0.0], [0.0, 0.0], [0.5, 0.0]], np.float32))
    playback = make_playback(queue)
    counts = playback._guard.counts
    playback.tick(0)
    playback.tick(PERIOD_NS)
    assert counts[VELOCITY_LIMIT] == 0
    playback.tick(2 * PERIOD_NS)
    assert counts[VELOCITY_LIMIT] == 1


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
    counts = playback._guard.counts
    assert (counts[VELOCITY_LIMIT], counts[JOINT_LIMIT]) == (0, 0)
    playback.tick(4 * PERIOD_NS)  # the rows 1 to 3 were executed without a tick
    assert (counts[VELOCITY_LIMIT], counts[JOINT_LIMIT]) == (3, 1)


def test_a_trajectory_controller_that_comes_back_is_held_where_its_joints_are():
    queue = ActionQueue()
    feed(queue, make_rows(4, step=MAX_STEP))
    playback = make_playback(queue)
    playback.tick(0)
    playback.tick(PERIOD_NS)
    playback.listen(playback._contract.commands)
    playback.control.change(paused=True, measured=np.full(2, -0.8))
    playback.tick(2 * PERIOD_NS)
    playback.listen([])
    tick = playback.tick(3 * PERIOD_NS)
    assert tick.source is CommandSource.HOLD
    assert tick.command == pytest.approx([-0.8, -0.8])


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


def stalled(*, period_ns: int = PERIOD_NS, **options: float) -> Playback:
    """Return a playback whose control thread was stuck for a second, after a tick at zero.

    The arm was stopped meanwhile, nobody knows where; the last measurement is from before.
    """
    queue = ActionQueue()
    feed(queue, make_rows(round(1.5e9 / period_ns), step=0.4 * MAX_STEP))
    playback = make_playback(queue, **options)
    playback.control.change(measured=np.zeros(2), measured_ns=0)
    playback.tick(0)
    return playback


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
    step = 0.0 if paused else MAX_STEP
    assert tick.source is (CommandSource.HOLD if paused else CommandSource.CHUNK)
    assert horizon_of(tick)[0] == pytest.approx([0.2 + step, 0.2 - step])


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
    assert playback._guard.counts[VELOCITY_LIMIT] == 1
    playback.tick(ns(1.0))
    assert playback._guard.counts[VELOCITY_LIMIT] == 1


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


def test_a_trajectory_that_cannot_be_ended_yet_counts_as_a_command_until_it_is_over():
    """A node that dies now leaves it to the watchdog, which must not believe that nothing is in force."""
    playback = stalled()  # of 30 rows
    playback.control.change(paused=True)
    assert playback.tick(ns(1.0)).in_force
    assert not playback.tick(ns(1.5)).in_force


@pytest.mark.parametrize("unseen_for", [0, 4])  # ticks
def test_the_others_are_held_where_their_rows_brought_them_while_a_controller_is_away(unseen_for: int):
    """A step from where they were measured some time ago would lead them back."""
    queue = ActionQueue()
    feed(queue, make_rows(30, step=0.4 * MAX_STEP))
    playback = make_playback(queue)
    for index in range(8):
        playback.tick(index * PERIOD_NS)
    playback.listen(playback._contract.commands[:1])
    playback.control.change(forget=True, measured=None)
    for index in range(8, 8 + unseen_for):
        assert playback.tick(index * PERIOD_NS).in_force
    now_ns = (8 + unseen_for) * PERIOD_NS
    playback.control.change(measured=np.array([0.1, -0.1]), measured_ns=now_ns - 3 * PERIOD_NS)
    command = playback.tick(now_ns).command
    assert command is not None
    assert command[1] == pytest.approx(-(7 + unseen_for) * 0.4 * MAX_STEP)


def test_a_horizon_is_ended_however_many_ticks_the_first_measurement_takes():
    """Nobody else ends it where there is no watchdog."""
    period_ns = ns(0.002)
    playback = stalled(period_ns=period_ns, fps=500.0)
    playback.control.change(paused=True)
    for index in range(2 * STOPS):
        tick = playback.tick(ns(1.0) + index * period_ns)
        assert (tick.command, tick.interventions) == (None, (SENSOR_AGE,))
        assert playback._guard.counts[SENSOR_AGE] == index + 1
    at_ns = ns(1.0) + 2 * STOPS * period_ns
    playback.control.change(measured=np.full(2, 0.2), measured_ns=at_ns)
    assert playback.tick(at_ns).command == pytest.approx([0.2, 0.2])


def test_an_unreadable_joint_is_not_held():
    playback = stalled()
    playback.control.change(paused=True, measured=np.array([np.nan, 0.2]), measured_ns=ns(1.0))
    tick = playback.tick(ns(1.0))
    assert (tick.command, tick.interventions) == (None, (NON_FINITE,))


def test_an_arm_outside_its_limits_is_held_within_them_by_one_step_at_a_time():
    queue = ActionQueue()
    feed(queue, np.full((4, 2), 0.5, np.float32))
    playback = make_playback(queue)
    playback.control.change(measured=np.array([1.3, 0.5]))
    assert playback.tick(0).command == pytest.approx([1.2, 0.5])
    playback.control.change(paused=True)
    for index, (held, rules) in enumerate(
        [(1.1, (JOINT_LIMIT, VELOCITY_LIMIT)), (1.0, (JOINT_LIMIT,)), (1.0, ())], start=1
    ):
        tick = playback.tick(index * PERIOD_NS)
        assert (tick.source, tick.interventions) == (CommandSource.HOLD, rules)
        assert tick.command == pytest.approx([held, 0.5])


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


events = st.lists(
    st.one_of(
        st.tuples(st.just("merge"), st.integers(1, 30)),
        st.tuples(st.just("tick"), st.integers(1, 8)),  # periods since the last one
        st.tuples(st.sampled_from(["pause", "resume", "reset"]), st.just(0)),
    ),
    max_size=60,
)


@given(
    events, st.integers(0, 2**32 - 1), st.sampled_from(["hold", "repeat_last"]), st.sampled_from([1, 1, 2, 5])
)
def test_whatever_happens_no_controller_is_handed_a_jump_or_anything_too_old(
    schedule: list, seed: int, fallback: str, ticks_per_row: int
):
    """The arm follows its controller, which goes along the last horizon until another one arrives."""
    rng = np.random.default_rng(seed)
    queue = ActionQueue()
    playback = make_playback(queue, fallback=fallback, ticks_per_row=ticks_per_row)
    now_ns = ns(10)
    path: list[np.ndarray] = [np.zeros(2)]  # what the controller does from the last tick on
    for event, amount in schedule:
        if event == "merge":
            rows = rng.uniform(-1.5 * LIMIT, 1.5 * LIMIT, (amount, 2)).astype(np.float32)
            feed(queue, rows, capture_ns=now_ns - int(rng.integers(0, MAX_AGE_NS)))
        elif event == "reset":
            queue.clear()
            playback.control.change(forget=True)
        elif event in ("pause", "resume"):
            if event == "resume":
                playback.control.change(forget=True)
            playback.control.change(paused=event == "pause")
        else:
            now_ns += amount * PERIOD_NS
            # The last tick's command is reached one period after it; then one row per period.
            arm = path[min(amount - 1, len(path) - 1)]
            playback.control.change(measured=arm.copy())
            tick = playback.tick(now_ns)
            if tick.horizon is None:
                path = [arm] if len(path) == 1 else path[min(amount, len(path) - 1) :]
                continue
            steps = np.diff(tick.horizon, axis=0, prepend=arm[np.newaxis])
            assert (np.abs(steps) <= MAX_STEP + 1e-9).all()
            assert (np.abs(tick.horizon) <= LIMIT).all()
            path = list(tick.horizon)
            if tick.source is CommandSource.CHUNK:
                assert tick.queued is not None
                assert now_ns - tick.queued.source.capture_ns <= MAX_AGE_NS


def test_an_arm_outside_its_limits_is_led_back_by_one_step_at_a_time():
    """What is published is what was guarded: the first row is not clamped a second time."""
    queue = ActionQueue()
    feed(queue, np.full((4, 2), 0.5, np.float32))
    playback = make_playback(queue)
    playback.control.change(measured=np.array([1.4, -1.4]))
    horizon = horizon_of(playback.tick(0))
    assert horizon[0] == pytest.approx([1.4 - MAX_STEP, -1.4 + MAX_STEP])


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
    """The other joint's controller is gone and nobody measures it: no command can be made for both."""
    queue = ActionQueue()
    feed(queue, make_rows(30, step=0.5 * MAX_STEP))
    playback = make_playback(queue)
    playback.control.change(measured=np.zeros(2), measured_ns=0)
    playback.tick(0)
    away = playback._contract.commands[1:]
    playback.listen(away)
    playback.control.change(measured=None)
    for index in range(1, 5):
        assert playback.tick(index * PERIOD_NS).command is None
    playback.control.change(measured=np.array([0.15, 0.0]), measured_ns=4 * PERIOD_NS)
    command = playback.tick(5 * PERIOD_NS).command
    assert command is not None
    assert command[0] == pytest.approx(5 * 0.5 * MAX_STEP), "the row whose time it is"
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


def test_clamps_of_rows_that_a_controller_executes_while_nothing_can_be_commanded_are_counted_once():
    queue = ActionQueue()
    feed(queue, np.full((8, 2), [0.9, 0.0], np.float32))
    playback = make_playback(queue)
    playback.control.change(measured=np.zeros(2), measured_ns=0)
    playback.tick(0)
    playback.listen(playback._contract.commands[1:])
    playback.control.change(measured=None)
    for index in range(1, 5):
        assert playback.tick(index * PERIOD_NS).command is None
        assert playback._guard.counts[VELOCITY_LIMIT] == index


def test_when_a_command_has_ended_the_rows_a_measurement_counts_as_soon_as_that_one_was_reached():
    queue = ActionQueue()
    feed(queue, make_rows(10))
    playback = make_playback(queue)
    playback.tick(0)
    playback.control.change(paused=True)
    assert playback.tick(PERIOD_NS).source is CommandSource.HOLD
    playback.control.change(paused=False, forget=True, measured=np.full(2, 0.05), measured_ns=2 * PERIOD_NS)
    assert playback.tick(3 * PERIOD_NS).source is CommandSource.CHUNK
