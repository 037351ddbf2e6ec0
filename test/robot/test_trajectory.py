# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What trajectory controllers are handed: the safe horizon and no more, whatever happens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from remote_inference.robot.command import CommandSource
from remote_inference.robot.queue.action_queue import ActionQueue
from remote_inference.robot.safety.guard import VELOCITY_LIMIT
from support.builders import FLOAT64_MULTI_ARRAY, LIMIT, MAX_STEP, PERIOD_NS, make_rows, ns
from support.robot.playbacks import MAX_AGE_NS
from support.robot.played_trajectory import feed, horizon_of, make_playback


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
    playback = make_playback(queue, ramp_begin=0.5, ramp_ns=ns(1.0))
    playback.control.change(blend_in=True)
    horizon = horizon_of(playback.tick(0))
    assert horizon[:, 0] == pytest.approx(0.5 * MAX_STEP * np.arange(1, 5))


def test_clamps_ahead_are_counted_when_they_are_executed_and_once():
    queue = ActionQueue()
    feed(queue, np.array([[0.0, 0.0], [0.0, 0.0], [0.5, 0.0]], np.float32))
    playback = make_playback(queue)
    counts = playback.rules.guard.counts
    playback.tick(0)
    playback.tick(PERIOD_NS)
    assert counts[VELOCITY_LIMIT] == 0
    playback.tick(2 * PERIOD_NS)
    assert counts[VELOCITY_LIMIT] == 1


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
