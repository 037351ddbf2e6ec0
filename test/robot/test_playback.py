# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the robot is commanded in each tick: fresh guarded actions, else the fallback, else nothing."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from remote_inference.robot.command import CommandSource
from remote_inference.robot.fallbacks import FALLBACKS
from remote_inference.robot.motion.playback import Playback
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.robot.safety.guard import (
    AGE,
    JOINT_LIMIT,
    NON_FINITE,
    VELOCITY_LIMIT,
)
from remote_inference.robot.step_lock import StepLock
from support.builders import MAX_STEP, PERIOD_NS, make_config, make_contract, make_rows, ns
from support.robot.playbacks import MAX_AGE_NS, make_rules
from support.robot.played_arm import Arm


def test_it_starts_paused():
    assert Playback(make_rules(make_contract()), ActionQueue()).control.operator.paused


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


def test_what_the_guard_alters_is_counted_by_actions_and_not_by_joints():
    arm = Arm()
    arm.playback.control.change(measured=np.ones(2))
    arm.feed(np.full((3, 2), 9.0, np.float32))
    for index in range(3):
        arm.playback.tick(index * PERIOD_NS)
    assert {rule: count for rule, count in arm.guard.counts.items() if count} == {JOINT_LIMIT: 3}


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


def test_a_fallback_s_positions_pass_the_guard():
    class Eager:
        action_kinds = ("position",)
        source = CommandSource.REPEAT_LAST

        def command(self, last, reference):
            return np.full(2, 5.0)

        def stop(self, last):
            return None

    arm = Arm()
    arm.playback.rules = replace(arm.playback.rules, fallback=Eager())
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
    arm.playback.note_merge()
    assert arm.playback.starved == ""


def test_a_tick_waits_while_another_thread_has_the_lock():
    lock = StepLock()
    arm = Arm(lock=lock)
    with ThreadPoolExecutor(1) as pool:
        with lock:
            ticked = pool.submit(arm.playback.tick, 0)
            assert not wait([ticked], timeout=0.1).done
        ticked.result()


def test_clamps_from_before_a_reset_do_not_count_towards_the_stop_for_clamps():
    arm = Arm(max_changed=0.5, window=4)
    arm.playback.control.change(measured=np.ones(2))
    arm.feed(np.array([[3.0, 3.0]] * 2 + [[1.0, 1.0]] * 4, np.float32))
    for index in range(2):
        assert arm.playback.tick(index * PERIOD_NS).interventions
    arm.playback.control.change(forget=True, measured=np.ones(2), measured_ns=2 * PERIOD_NS)
    arm.queue.clear()
    arm.feed(np.array([[3.0, 3.0]] + [[1.0, 1.0]] * 4, np.float32))
    for index in range(2, 5):
        assert arm.playback.tick(index * PERIOD_NS).source is CommandSource.CHUNK


def test_shadow_mode_compares_the_policy_s_commands_alone():
    arm = Arm("repeat_last", is_shadow=True)
    shadow = arm.playback.shadow
    assert shadow is not None
    arm.feed(np.full((1, 2), 0.05, np.float32))
    sources = [arm.playback.tick(index * PERIOD_NS).source for index in range(3)]
    assert sources == [CommandSource.CHUNK, *[CommandSource.REPEAT_LAST] * 2]
    assert shadow.error.ticks == 1
