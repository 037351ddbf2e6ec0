# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the robot is commanded in each tick: fresh guarded actions, else the fallback, else nothing."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.controller_stop import STOPS, longest_stopping_s
from remote_inference.core.documents.document import parse_document
from remote_inference.core.robot.command import CommandSource
from remote_inference.core.robot.fallbacks import FALLBACKS
from remote_inference.core.robot.motion.human_commands import HumanCommands
from remote_inference.core.robot.motion.playback import Playback
from remote_inference.core.robot.motion.shadow import ShadowComparison
from remote_inference.core.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.core.robot.safety.guard import (
    AGE,
    FOLLOWING_ERROR,
    JOINT_LIMIT,
    NON_FINITE,
    SENSOR_AGE,
    VELOCITY_LIMIT,
    Guard,
    InterventionLatch,
)
from remote_inference.core.robot.safety.stop_inputs import StopInputs
from remote_inference.core.robot.turn import Turn
from support.builders import (
    JOINTS,
    MAX_STEP,
    PERIOD_NS,
    contract_document,
    make_config,
    make_contract,
    make_rows,
    make_source,
    ns,
)

MAX_AGE_NS = ns(3.0)
AGES = {"max_action_age_ns": MAX_AGE_NS, "max_sensor_age_ns": ns(0.5), "given_up_after_ns": MAX_AGE_NS}


class Arm:
    """A playback with its queue, unpaused, at zero."""

    def __init__(
        self,
        fallback: str = "hold",
        kind: str = "position",
        queue: ActionQueue | None = None,
        contract: Contract | None = None,
        **options: Any,
    ):
        contract = contract or make_contract(kind)
        self.queue = ActionQueue() if queue is None else queue
        self.guard = Guard(contract.actions, PERIOD_NS / 1e9)
        self.playback = Playback(self.queue, self.guard, contract, fallback=fallback, **AGES | options)
        self.now_ns = 0
        self.playback.control.change(paused=False)
        self.playback.control.change(measured=np.zeros(2))

    def feed(self, rows: np.ndarray, capture_ns: int = 0, mode: MergeMode = MergeMode.APPEND) -> None:
        feed(self.queue, rows, capture_ns, mode)


def feed(queue: ActionQueue, rows: np.ndarray, capture_ns: int, mode: MergeMode = MergeMode.APPEND) -> None:
    queue.merge(make_source(capture_ns=capture_ns), rows, rows, mode, latency_steps=0, executed_before=0)


def test_it_starts_paused():
    queue = ActionQueue()
    guard = Guard(make_contract().actions, PERIOD_NS / 1e9)
    assert Playback(queue, guard, make_contract(), fallback="hold", **AGES).control.word.paused


def test_a_tick_commands_the_next_action_and_says_where_it_comes_from():
    arm = Arm()
    arm.feed(make_rows(2), capture_ns=ns(1))
    tick = arm.playback.tick(ns(1.5))
    assert tick.source is CommandSource.CHUNK
    assert tick.command == pytest.approx([0.0, 0.0])
    assert tick.age_s == pytest.approx(0.5)
    assert tick.queued is not None
    assert tick.queued.step_index == 0
    assert arm.playback.tick(ns(1.55)).command == pytest.approx([0.01, -0.01])


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


@pytest.mark.parametrize(("age_ns", "commanded"), [(MAX_AGE_NS, True), (MAX_AGE_NS + 1, False)])
def test_actions_older_than_the_bound_are_refused_named_and_counted(age_ns: int, commanded: bool):
    arm = Arm()
    arm.feed(make_rows(4))
    tick = arm.playback.tick(age_ns)
    assert (tick.command is not None) == commanded
    assert (AGE in tick.interventions) != commanded
    assert arm.guard.counts[AGE] == (0 if commanded else 4)


def test_an_aged_chunk_gives_way_to_a_younger_one_behind_it():
    arm = Arm()
    arm.feed(make_rows(4), capture_ns=0)
    arm.feed(make_rows(4), capture_ns=ns(2))
    tick = arm.playback.tick(ns(4))
    assert tick.age_s == pytest.approx(2.0)
    assert arm.guard.counts[AGE] == 4


@pytest.mark.parametrize("aged", [0, 1])
def test_an_old_chunk_merged_in_the_middle_of_a_tick_is_not_commanded(aged: int):
    """The merging thread may come between the removal of aged actions and the taking of the next one."""

    class RacingQueue(ActionQueue):
        def drop_captured_before(self, oldest_ns: int) -> int:
            dropped = super().drop_captured_before(oldest_ns)
            feed(self, make_rows(2), capture_ns=oldest_ns - ns(1))
            return dropped

    arm = Arm(queue=RacingQueue())
    arm.feed(make_rows(aged))
    tick = arm.playback.tick(ns(10))
    assert tick.command is None
    assert tick.interventions == (AGE,)
    assert arm.guard.counts[AGE] == aged + 1


def test_a_refused_action_is_not_commanded():
    arm = Arm()
    arm.feed(np.array([[np.nan, 0.0]], np.float32))
    tick = arm.playback.tick(0)
    assert tick.command is None
    assert tick.interventions == (NON_FINITE,)


def test_hold_publishes_nothing():
    arm = Arm("hold")
    arm.feed(make_rows(1))
    arm.playback.tick(0)
    tick = arm.playback.tick(PERIOD_NS)
    assert (tick.command, tick.source, tick.queued) == (None, CommandSource.NONE, None)
    assert math.isnan(tick.age_s)


@pytest.mark.parametrize("cause", ["empty", "aged", "refused"])
@pytest.mark.parametrize(
    ("fallback", "kind", "source", "command"),
    [
        ("repeat_last", "position", CommandSource.REPEAT_LAST, [0.05, 0.05]),
        ("zero", "velocity", CommandSource.ZERO, [0.0, 0.0]),
    ],
)
def test_the_fallback_runs_whatever_the_cause(
    fallback: str, kind: str, source: CommandSource, command: list, cause: str
):
    arm = Arm(fallback, kind)
    arm.feed(np.full((1, 2), 0.05, np.float32))
    arm.playback.tick(PERIOD_NS)
    if cause == "aged":
        arm.feed(make_rows(3))
    elif cause == "refused":
        arm.feed(np.full((1, 2), np.inf, np.float32), capture_ns=MAX_AGE_NS)
    tick = arm.playback.tick(MAX_AGE_NS + 1)
    assert tick.source is source
    assert tick.command == pytest.approx(command)
    assert tick.interventions == {"empty": (), "aged": (AGE,), "refused": (NON_FINITE,)}[cause]


def test_the_zero_fallback_stops_a_velocity_robot_after_a_reset_too():
    """Silence would keep the last velocity: the reason why zero is required for these interfaces."""
    arm = Arm("zero", "velocity")
    arm.feed(np.full((5, 2), 0.5, np.float32))
    arm.playback.tick(0)
    arm.queue.clear()
    arm.playback.control.change(forget=True)
    tick = arm.playback.tick(PERIOD_NS)
    assert tick.source is CommandSource.ZERO
    assert tick.command == pytest.approx([0.0, 0.0])


def test_repeat_last_has_nothing_to_repeat_before_the_first_command():
    assert Arm("repeat_last").playback.tick(0).command is None


def test_repeat_last_has_nothing_to_repeat_after_a_resume_or_a_reset():
    """Both forget the last command: somebody may have moved the arm meanwhile."""
    arm = Arm("repeat_last")
    arm.feed(np.full((1, 2), 0.05, np.float32))
    arm.playback.tick(0)
    assert arm.playback.tick(PERIOD_NS).source is CommandSource.REPEAT_LAST
    arm.playback.control.change(forget=True)
    assert arm.playback.tick(2 * PERIOD_NS).command is None


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


def test_starved_says_why_until_there_is_something_to_execute():
    arm = Arm()
    arm.playback.tick(0)
    assert arm.playback.starved == "queue empty"
    arm.feed(make_rows(1))
    arm.playback.tick(0)
    assert arm.playback.starved == ""
    arm.feed(make_rows(3))
    for index in range(2):
        arm.playback.tick(MAX_AGE_NS + 1 + index)
        assert "max_action_age_s" in arm.playback.starved


def test_clamps_show_in_the_tick():
    arm = Arm()
    arm.playback.control.change(measured=np.array([1.0, -1.0]))
    arm.feed(np.array([[3.0, -3.0]], np.float32))
    assert arm.playback.tick(0).interventions == (JOINT_LIMIT,)


events = st.one_of(
    st.tuples(st.just("merge"), st.integers(0, 4_000), st.integers(1, 30)),
    st.tuples(st.just("wait"), st.integers(0, 2_000), st.just(0)),
    st.tuples(st.just("ticks"), st.integers(1, 10), st.just(0)),
    st.tuples(st.sampled_from(["pause", "resume", "clear"]), st.just(0), st.just(0)),
)


@given(
    st.lists(events, max_size=30),
    st.sampled_from(["hold", "repeat_last", "zero"]),
    st.sampled_from(MergeMode),
)
def test_no_action_older_than_the_bound_is_ever_commanded(schedule: list, fallback: str, mode: MergeMode):
    arm = Arm(fallback, "velocity" if fallback == "zero" else "position")
    now_ns = newest_capture_ns = ns(10)
    for event, amount, length in schedule:
        if event == "merge":  # answers arrive in the order of their observations, however late
            newest_capture_ns = max(newest_capture_ns, now_ns - amount * 1_000_000)
            arm.feed(make_rows(length), newest_capture_ns, mode)
        elif event == "wait":
            now_ns += amount * 1_000_000
        elif event == "clear":
            arm.queue.clear()
            arm.playback.control.change(forget=True)
        elif event == "ticks":
            for _ in range(amount):
                now_ns += PERIOD_NS
                tick = arm.playback.tick(now_ns)
                if tick.source is CommandSource.CHUNK:
                    assert tick.queued is not None
                    assert now_ns - tick.queued.source.capture_ns <= MAX_AGE_NS
                    assert tick.age_s == pytest.approx((now_ns - tick.queued.source.capture_ns) / 1e9)
        else:
            arm.playback.control.change(paused=event == "pause")


@pytest.mark.parametrize("flag", ["paused", "halted"])
def test_a_velocity_robot_that_is_paused_or_dead_is_told_to_stop_for_a_while(flag: str):
    """It keeps its last velocity in silence; zeros for ever would fight whoever takes over."""
    arm = Arm(kind="velocity", fallback="zero")
    arm.feed(make_rows(2), capture_ns=ns(1))
    assert arm.playback.tick(ns(1)).source is CommandSource.CHUNK
    arm.playback.control.change(**{flag: True})
    sources = [arm.playback.tick(ns(2)).source for _ in range(40)]
    assert sources == [CommandSource.ZERO] * STOPS + [CommandSource.NONE] * (40 - STOPS)


def test_a_command_that_is_forgotten_in_the_middle_of_a_tick_is_forgotten():
    """The reset comes from another thread, between the tick's look at the reference and its end."""

    class InterruptedGuard(Guard):
        def check(self, *arguments, **keywords):
            arm.playback.control.change(forget=True)
            return super().check(*arguments, **keywords)

    arm = Arm()
    arm.feed(np.zeros((3, 2), np.float32))
    arm.playback._guard = InterruptedGuard(make_contract().actions, PERIOD_NS / 1e9)
    arm.playback.tick(0)
    arm.playback._guard = arm.guard
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


@pytest.mark.parametrize("kind", ["velocity", "effort"])
def test_nothing_is_commanded_before_the_first_action_not_even_a_stop(kind: str):
    """Another node of this name may be driving the robot."""
    arm = Arm("zero", kind)
    assert [arm.playback.tick(index * PERIOD_NS).command for index in range(3)] == [None] * 3


def test_after_a_long_silence_the_step_is_taken_from_where_the_arm_is():
    """Somebody else may have moved it while this node had nothing to command."""
    arm = Arm()
    arm.feed(np.full((1, 2), 0.05, np.float32))
    arm.playback.tick(0)
    arm.playback.control.change(measured=np.array([-0.8, 0.8]))
    arm.feed(np.full((1, 2), 0.05, np.float32), capture_ns=2 * MAX_AGE_NS)
    command = arm.playback.tick(2 * MAX_AGE_NS).command
    assert command == pytest.approx([-0.8 + MAX_STEP, 0.8 - MAX_STEP])


TWO_CONTROLLERS = [
    {"topic": f"{joint}/commands", "type": "std_msgs/msg/Float64MultiArray", "names": [joint]}
    for joint in JOINTS
]


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
    arm.playback.listen(arm.playback._contract.commands)
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


def test_a_fallback_s_positions_pass_the_guard():
    class Eager:
        source = CommandSource.REPEAT_LAST

        def command(self, last, reference):
            return np.full(2, 5.0)

        def stop(self, last):
            return None

    arm = Arm()
    arm.playback._fallback = Eager()
    arm.feed(make_rows(1))
    arm.playback.tick(0)
    tick = arm.playback.tick(PERIOD_NS)
    assert tick.command == pytest.approx([MAX_STEP, MAX_STEP])
    assert tick.interventions == (JOINT_LIMIT, VELOCITY_LIMIT)


def test_a_node_that_slept_does_not_repeat_an_old_command():
    arm = Arm("repeat_last")
    arm.feed(make_rows(1))
    arm.playback.tick(0)
    assert arm.playback.tick(PERIOD_NS).source is CommandSource.REPEAT_LAST
    assert arm.playback.tick(2 * MAX_AGE_NS).command is None


@pytest.mark.parametrize(
    ("kind", "safe"), [("position", {"hold", "repeat_last"}), ("velocity", {"zero"}), ("effort", {"zero"})]
)
def test_only_what_is_safe_for_the_actions_may_be_the_fallback(kind: str, safe: set[str]):
    """Zeros are a target for positions; silence keeps the last velocity or effort."""
    for fallback in FALLBACKS.names:
        config = make_config(fallback=fallback)
        if fallback in safe:
            config.check_fallback(kind)
        else:
            with pytest.raises(
                ValueError, match=f"^fallback: found '{fallback}' for {kind} actions, expected"
            ):
                config.check_fallback(kind)


def test_a_merge_ends_the_starving_before_the_next_tick():
    arm = Arm()
    arm.playback.tick(0)
    assert arm.playback.starved == "queue empty"
    arm.playback.take_merge()
    assert arm.playback.starved == ""


def test_a_robot_that_is_not_halted_is_not_finished():
    arm = Arm()
    arm.playback.tick(0)
    assert not arm.playback.finished
    arm.playback.control.change(halted=True)
    assert arm.playback.finished


def test_an_end_is_waited_for_a_second_longer_than_its_stops_take():
    playback = Arm().playback
    assert playback.longest_stopping_s == pytest.approx(longest_stopping_s(PERIOD_NS / 1e9) + 1.0)
    assert playback.longest_end_s == playback.longest_stopping_s, "there is no way home"


def test_a_tick_waits_while_another_thread_has_the_turn():
    turn = Turn()
    arm = Arm(turn=turn)
    with ThreadPoolExecutor(1) as pool:
        with turn:
            ticked = pool.submit(arm.playback.tick, 0)
            assert not wait([ticked], timeout=0.1).done
        ticked.result()


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
    assert arm.playback.astray == ()
    arm.playback.control.change(measured=np.full(2, -0.5), measured_ns=now_ns)
    arm.playback.tick(now_ns + ns(0.4))
    assert set(arm.playback.astray) == set(JOINTS)


def test_clamps_from_before_a_reset_do_not_count_towards_the_stop_for_clamps():
    arm = Arm(latch=InterventionLatch(0.5, 4))
    arm.playback.control.change(measured=np.ones(2))
    arm.feed(np.array([[3.0, 3.0]] * 2 + [[1.0, 1.0]] * 4, np.float32))
    for index in range(2):
        assert arm.playback.tick(index * PERIOD_NS).interventions
    arm.playback.control.change(forget=True, measured=np.ones(2), measured_ns=2 * PERIOD_NS)
    arm.queue.clear()
    arm.feed(np.array([[3.0, 3.0]] + [[1.0, 1.0]] * 4, np.float32))
    for index in range(2, 5):
        assert arm.playback.tick(index * PERIOD_NS).source is CommandSource.CHUNK


def lagging(arm: Arm) -> Arm:
    """An arm that stands still far from its last command."""
    arm.feed(np.full((20, 2), 0.9, np.float32))
    for index in range(10):
        arm.playback.tick(index * PERIOD_NS)
    assert set(arm.playback.astray) == set(JOINTS)
    return arm


def test_a_paused_arm_need_not_follow():
    """Somebody may move it by hand."""
    arm = lagging(Arm())
    arm.playback.control.change(paused=True)
    arm.playback.tick(10 * PERIOD_NS)
    assert arm.playback.astray == ()
    arm.playback.control.change(measured=np.full(2, -0.9))
    arm.playback.tick(11 * PERIOD_NS)
    assert arm.playback.astray == ()


def test_after_a_reset_an_arm_that_did_not_follow_is_led_on_from_where_it_is():
    arm = lagging(Arm())
    arm.playback.control.change(forget=True, measured=np.zeros(2), measured_ns=10 * PERIOD_NS)
    assert arm.playback.tick(10 * PERIOD_NS).command == pytest.approx([MAX_STEP] * 2)
    assert arm.playback.astray == ()


def test_where_nothing_is_queued_no_position_is_missed():
    arm = Arm()
    arm.playback.control.change(measured=None)
    arm.playback.tick(0)
    assert arm.playback.starved == "queue empty"
    assert arm.guard.counts[SENSOR_AGE] == 0


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
    arm.playback.listen(arm.playback._contract.commands[joint : joint + 1])
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


def test_one_joint_that_does_not_follow_stops_all():
    arm = Arm()
    arm.feed(np.full((20, 2), 0.9, np.float32))
    for index in range(10):
        arm.playback.control.change(measured=np.array([0.0, 0.1 * index]))
        tick = arm.playback.tick(index * PERIOD_NS)
    assert arm.playback.astray == (JOINTS[0],)
    assert (tick.command, tick.interventions) == (None, (FOLLOWING_ERROR,))


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
    assert (tick.command, tick.interventions) == (None, (FOLLOWING_ERROR,))
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


def test_shadow_mode_compares_the_policy_s_commands_alone():
    shadow = ShadowComparison(2)
    arm = Arm("repeat_last", shadow=shadow)
    arm.feed(np.full((1, 2), 0.05, np.float32))
    sources = [arm.playback.tick(index * PERIOD_NS).source for index in range(3)]
    assert sources == [CommandSource.CHUNK, *[CommandSource.REPEAT_LAST] * 2]
    assert shadow.error.ticks == 1
