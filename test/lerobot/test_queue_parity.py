# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""With `delay_policy: latency` and `latency_quantile: 1.0` queue and delays are those of LeRobot itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from real_lerobot import LatencyTracker, RealQueue, lerobot
from request_loops import Cycle, LeRobotLoop, OurLoop

from remote_inference.robot.queue.latency import WINDOW, LatencyWindow
from support.builders import CHUNK_SIZE, FPS
from support.robot.queue_operations import Operation, assert_equal_after_each, content, operations

reproducible = settings(deadline=None, database=None, print_blob=True)

latencies_s = st.floats(0.0, 10.0)
# A whole number of periods is left out: there LeRobot's ceil depends on float noise (test_differences).
cycle_latencies_s = (
    st.integers(0, 1200).filter(lambda ms: ms == 0 or ms % (1000 / FPS)).map(lambda ms: ms / 1000)
)
scripts = st.lists(st.builds(Cycle, cycle_latencies_s, st.integers(0, 25)), min_size=1, max_size=8)


def test_the_release_is_the_one_that_is_claimed():
    assert lerobot.__version__ == "0.6.1"


@settings(reproducible, max_examples=1000)
@given(operations, st.none() | st.integers(0, 12))
def test_lengths_and_bytes_equal_on_every_sequence_of_operations(
    sequence: list[Operation], index_before: int | None
):
    assert_equal_after_each(sequence, RealQueue(index_before))


@settings(reproducible, max_examples=500)
@given(st.lists(latencies_s, min_size=1, max_size=WINDOW))
def test_up_to_100_latencies_have_the_same_maximum(samples_s: list[float]):
    ours, theirs = windows_of(samples_s)
    assert ours.quantile_s(1.0) == theirs.max() == theirs.percentile(1.0)


@settings(reproducible, max_examples=500)
@given(st.lists(latencies_s, min_size=1, max_size=3 * WINDOW), st.floats(0.0, 0.99))
def test_quantiles_below_the_maximum_are_equal_over_the_same_window(samples_s: list[float], quantile: float):
    ours, theirs = windows_of(samples_s)
    assert ours.quantile_s(quantile) == pytest.approx(theirs.percentile(quantile), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("rtc_enabled", [True, False])
@settings(reproducible, max_examples=300)
@given(script=scripts)
def test_request_loops_send_the_same_delays_and_prefixes_and_execute_the_same_actions(
    rtc_enabled: bool, script: list[Cycle]
):
    ours, theirs = OurLoop(rtc_enabled=rtc_enabled), LeRobotLoop(rtc_enabled=rtc_enabled)
    ours.run(script)
    theirs.run(script)
    assert ours.delays == theirs.delays
    assert [content(prefix) for prefix in theirs.prefixes] == padded(ours.prefixes)
    assert ours.executed == theirs.executed
    assert ours.left_over() == theirs.left_over()


def windows_of(samples_s: Sequence[float]) -> tuple[LatencyWindow, LatencyTracker]:
    """Return ours, past its cold start, and LeRobot's."""
    ours, theirs = LatencyWindow(1.0), LatencyTracker()
    ours.add(0.0)
    for sample_s in samples_s:
        ours.add(sample_s)
        theirs.add(sample_s)
    return ours, theirs


def padded(prefixes: list[np.ndarray | None]) -> list[bytes]:
    """Return our prefixes as LeRobot sends them: from the second on, zeros fill up its execution_horizon."""
    rows = np.zeros((len(prefixes), CHUNK_SIZE, 2), np.float32)
    for row, prefix in zip(rows, prefixes, strict=True):
        if prefix is not None:
            row[: len(prefix)] = prefix[:CHUNK_SIZE]
    return [b"", *(row.tobytes() for row in rows[1:])]
