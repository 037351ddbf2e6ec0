# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where we differ from LeRobot on purpose: each test shows what LeRobot does and what we do instead."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from real_lerobot import LatencyTracker, RealQueue
from request_loops import Cycle, LeRobotLoop, OurLoop, chunk_of

from remote_inference.robot.queue.action_queue import ActionQueue, DelayPolicy, MergeMode
from remote_inference.robot.queue.latency import WINDOW, LatencyWindow, steps
from support.builders import CHUNK_SIZE, make_rows, make_source
from support.robot.queue_operations import content
from support.robot.simulation import World, streaming
from support.robot.steps import drop_old


def replace(
    queue: ActionQueue, rows: np.ndarray, *, latency_steps: int = 0, horizon: int | None = None
) -> None:
    queue.merge(
        make_source(),
        rows,
        rows,
        MergeMode.REPLACE,
        latency_steps=latency_steps,
        executed_before=queue.executed,
        horizon=horizon,
    )


# -- prefixes ----------------------------------------------------------------------------------------------


def test_a_drained_queue_has_no_rows_left_over_instead_of_an_array_of_none():
    ours, theirs = ActionQueue(DelayPolicy.LATENCY), RealQueue()
    replace(ours, make_rows(2), latency_steps=2)
    theirs.merge(make_rows(2), make_rows(2), 2, rtc=True)
    assert theirs.left_over().shape == theirs.processed_left_over().shape == (0, 2)
    assert ours.left_over() is None
    assert ours.left_over_robot() is None


def test_a_drained_robot_sends_no_prefix_instead_of_zeros():
    """Zeros would pull the start of the next chunk towards the zero action."""
    script = [Cycle(0.01), Cycle(1.01), Cycle(0.01)]  # the second chunk comes when it is over
    ours, theirs = OurLoop(), LeRobotLoop(execution_horizon=10)
    ours.run(script)
    theirs.run(script)
    assert content(theirs.prefixes[2]) == np.zeros((10, 2), np.float32).tobytes()
    assert ours.prefixes[2] is None


def test_a_prefix_is_as_long_as_what_is_queued_instead_of_padded_or_cut():
    script = [Cycle(0.01), Cycle(0.01)]
    ours, cut, filled = OurLoop(), LeRobotLoop(execution_horizon=4), LeRobotLoop(execution_horizon=30)
    for loop in (ours, cut, filled):
        loop.run(script)
    queued = chunk_of(0)[1:]
    assert content(ours.prefixes[1]) == queued.tobytes()
    assert content(cut.prefixes[1]) == queued[:4].tobytes()
    assert filled.prefixes[1].shape == (30, 2)
    assert not filled.prefixes[1][len(queued) :].any()


def test_a_horizon_bounds_the_rows_that_join_instead_of_those_of_the_prefix():
    """LeRobot's execution_horizon and ours share no more than their name."""
    ours, theirs = ActionQueue(DelayPolicy.LATENCY), LeRobotLoop(execution_horizon=4)
    replace(ours, make_rows(CHUNK_SIZE), horizon=4)
    theirs.run([Cycle(0.0), Cycle(0.0)])
    assert len(ours) == 4
    assert theirs.engine.action_queue.qsize() == CHUNK_SIZE
    assert len(theirs.prefixes[1]) == 4


def test_a_prefix_begins_with_the_row_of_the_capture_instead_of_that_of_the_request():
    ours, theirs, rows = ActionQueue(), RealQueue(), make_rows(4)
    replace(ours, rows)
    theirs.merge(rows, rows, 0, rtc=True)
    executed_at_capture = ours.executed
    ours.get()  # a control tick between the capture and the request
    theirs.get()
    assert content(theirs.left_over()) == rows[1:].tobytes()
    assert content(ours.prefixes(executed_at_capture).model) == rows.tobytes()


def test_both_spaces_can_be_read_at_one_instant():
    ours, theirs = ActionQueue(), RealQueue()
    replace(ours, make_rows(3))
    theirs.merge(make_rows(3), make_rows(3), 0, rtc=True)
    model = theirs.left_over()
    theirs.get()  # the control thread ticks between the two calls
    assert len(model) != len(theirs.processed_left_over())
    prefixes = ours.prefixes()
    ours.get()
    assert len(prefixes.model) == len(prefixes.robot) == 3


# -- latency -----------------------------------------------------------------------------------------------


def test_an_outlier_is_forgotten_after_100_cycles_instead_of_never():
    ours, theirs = LatencyWindow(1.0), LatencyTracker()
    ours.add(0.0)
    for sample_s in [3.0, *[0.1] * (WINDOW - 1)]:
        ours.add(sample_s)
        theirs.add(sample_s)
    assert ours.quantile_s(1.0) == theirs.max() == 3.0
    ours.add(0.1)
    theirs.add(0.1)
    assert len(theirs) == WINDOW  # it keeps a window too, but not for its maximum
    assert ours.quantile_s(1.0) == 0.1
    assert theirs.max() == theirs.percentile(1.0) == 3.0


def test_the_request_loop_tells_the_policy_the_delay_of_the_window():
    script = [Cycle(0.0), Cycle(0.51), *[Cycle(0.06)] * WINDOW, Cycle(0.0)]
    ours, theirs = OurLoop(), LeRobotLoop()
    ours.run(script)
    theirs.run(script)
    assert ours.delays[-2:] == [11, 2]
    assert theirs.delays[-2:] == [11, 11]


def test_the_default_quantile_ignores_one_outlier():
    script = [Cycle(0.0), Cycle(0.51), *[Cycle(0.06)] * 30]
    ours, theirs = OurLoop(quantile=0.95), LeRobotLoop()
    ours.run(script)
    theirs.run(script)
    assert ours.delays[-1] == 2
    assert theirs.delays[-1] == 11


def test_the_first_cycle_is_never_counted_instead_of_only_with_torch_compile():
    script = [Cycle(0.51), Cycle(0.06), Cycle(0.06)]
    ours, theirs = OurLoop(), LeRobotLoop(skip_first_latency=False)
    ours.run(script)
    theirs.run(script)
    assert ours.delays == [0, 0, 2]
    assert theirs.delays == [0, 11, 11]


def test_float_noise_does_not_add_a_step():
    """0.14 s are seven periods of 50 Hz, and 7.000000000000001 as quotient of floats."""
    theirs = LeRobotLoop(fps=50.0, skip_first_latency=False)
    theirs.run([Cycle(0.14), Cycle(0.0)])
    assert theirs.delays == [0, 8]
    assert steps(0.14, 1 / 50) == 7


# -- merging -----------------------------------------------------------------------------------------------


def test_consumed_drops_only_the_rows_of_ticks_in_which_the_robot_moved(caplog: pytest.LogCaptureFixture):
    """A chunk that comes to a robot held still begins at its first row: the arm is where it was captured."""
    script = [Cycle(0.0), Cycle(0.22, executed=2)]
    ours, latency, theirs = OurLoop(delay_policy=DelayPolicy.CONSUMED), OurLoop(), LeRobotLoop()
    with caplog.at_level(logging.WARNING):
        for loop in (ours, latency, theirs):
            loop.run(script)
    assert "indexes_diff=2, real_delay=5" in caplog.text  # LeRobot notices, and drops five
    second = chunk_of(1) * 2
    assert ours.take() == second[2].tobytes()
    assert theirs.take() == latency.take() == second[5].tobytes()


def test_spaces_of_different_length_are_refused_instead_of_queued():
    ours, theirs = ActionQueue(DelayPolicy.LATENCY), RealQueue()
    theirs.merge(make_rows(4), make_rows(3), 0, rtc=True)
    assert len(theirs.left_over()) == 4
    assert len(theirs) == 3
    with pytest.raises(ValueError, match="shorter"):
        ours.merge(
            make_source(), make_rows(4), make_rows(3), MergeMode.REPLACE, latency_steps=0, executed_before=0
        )
    assert len(ours) == 0


def test_a_merged_chunk_is_shared_instead_of_copied():
    """Nobody writes to a chunk that has arrived."""
    ours, theirs, rows = ActionQueue(DelayPolicy.LATENCY), RealQueue(), make_rows(3)
    replace(ours, rows)
    theirs.merge(rows, rows, 0, rtc=True)
    assert np.shares_memory(ours.get().robot, rows)
    assert not np.shares_memory(theirs.get(), rows)


def test_a_chunk_asked_for_before_a_reset_is_dropped_instead_of_executed():
    theirs = LeRobotLoop()
    theirs.run([Cycle(0.0), Cycle(0.01, resets=True)])
    assert theirs.take() == content(chunk_of(1)[1] * 2)

    world = streaming(World())
    requests = len(world.sent)
    world.run_until(lambda: len(world.sent) > requests)
    world.reset()
    reset_ns = world.now_ns
    world.run(2)
    executed = [tick.queued.source for at_ns, tick in world.ticks if at_ns > reset_ns and tick.queued]
    assert executed
    assert min(source.seq_id for source in executed) == world.sent[requests].seq_id + 1


# -- the source of every action ----------------------------------------------------------------------------


def test_every_action_carries_its_source_and_step_instead_of_bare_numbers():
    ours, theirs = ActionQueue(DelayPolicy.LATENCY), RealQueue()
    for seq_id, capture_ns in ((1, 10), (2, 20)):
        rows = make_rows(2, first=float(seq_id))
        ours.merge(
            make_source(seq_id, capture_ns), rows, rows, MergeMode.APPEND, latency_steps=0, executed_before=0
        )
        theirs.merge(rows, rows, 0, rtc=False)
    taken = [ours.get() for _ in range(4)]
    assert [(a.source.seq_id, a.source.capture_ns, a.step_index) for a in taken] == [
        (1, 10, 0),
        (1, 10, 1),
        (2, 20, 0),
        (2, 20, 1),
    ]
    assert type(theirs.get()) is np.ndarray


def test_actions_of_an_old_observation_are_dropped_instead_of_executed():
    ours, theirs, rows = ActionQueue(DelayPolicy.LATENCY), RealQueue(), make_rows(3)
    replace(ours, rows)
    theirs.merge(rows, rows, 0, rtc=True)
    assert drop_old(ours, 1) == 3
    assert ours.get() is None
    assert content(theirs.get()) == content(rows[0])  # it knows of no age
