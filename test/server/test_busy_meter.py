# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The load that a server reports: the busy fraction of the last seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from remote_inference.server.policy_watch import LOAD_WINDOW_NS, BusyMeter
from support.builders import SteadyPolicy
from support.server.bench import MS, AllAtOnce, Bench


def test_load_is_the_busy_fraction_of_the_window():
    meter = BusyMeter()
    assert meter.fraction(0) == 0.0
    second = LOAD_WINDOW_NS // 5
    meter.add(0, second)
    assert meter.fraction(second) == pytest.approx(0.2)
    assert meter.fraction(LOAD_WINDOW_NS + second // 2) == pytest.approx(0.1)
    assert meter.fraction(2 * LOAD_WINDOW_NS) == 0.0


def test_a_step_in_progress_counts_its_time_so_far():
    """A worker that hangs is busy, not idle."""
    meter = BusyMeter()
    second = LOAD_WINDOW_NS // 5
    meter.add(0, second)
    meter.begin(2 * second)
    assert meter.fraction(3 * second) == pytest.approx(0.4)
    assert meter.fraction(100 * second) == 1.0
    assert meter.running_s(100 * second) == pytest.approx(98.0)
    meter.add(2 * second, 100 * second)
    assert meter.running_s(100 * second) == 0.0
    assert meter.fraction(101 * second) == pytest.approx(0.8)


def test_a_meter_that_nobody_reads_keeps_the_steps_of_its_window_alone():
    meter = BusyMeter()
    step_ns = LOAD_WINDOW_NS // 100
    for begin_ns in range(0, 10 * LOAD_WINDOW_NS, step_ns):
        meter.add(begin_ns, begin_ns + step_ns // 2)
    assert len(meter._spans) <= 101
    assert meter.fraction(10 * LOAD_WINDOW_NS) == pytest.approx(0.5, abs=0.01)


def test_the_worker_reports_when_a_step_begins_and_ends():
    bench = Bench()
    healthy, running_s = bench.policy.answer, []

    def slow(batch: Sequence[Any]) -> Any:
        bench.now_ns += 7_000_000_000
        running_s.append(bench.worker.busy.running_s(bench.now_ns))
        return healthy(batch)

    bench.policy.answer = slow
    bench.put(0)
    bench.serve()
    assert running_s == [7.0]
    assert bench.worker.busy.running_s(bench.now_ns) == 0.0


def test_load_never_leaves_zero_to_one():
    bench = Bench()
    bench.let_inference_take(LOAD_WINDOW_NS // 4)
    for seq_id in range(9):
        bench.put(0, seq_id=seq_id)
        (chunk,) = bench.serve()
        assert 0.0 <= chunk.server_load <= 1.0
    assert bench.worker.busy.fraction(bench.now_ns) == 1.0


def test_the_load_in_a_chunk_counts_the_work_that_made_it():
    """A worker that is always busy with slow inferences must not report itself idle."""
    bench = Bench()
    bench.let_inference_take(LOAD_WINDOW_NS // 2)
    bench.put(0)
    (chunk,) = bench.serve()
    assert chunk.server_load == pytest.approx(0.5)


def test_publishing_counts_towards_the_load():
    """Otherwise a saturated server would report that it can take more robots."""
    bench = Bench(SteadyPolicy(max_batch=8), AllAtOnce(), robots=8)
    bench.let_inference_take(2 * MS)
    bench.each_send_takes_ns = MS
    while bench.now_ns < 3 * LOAD_WINDOW_NS:
        for index in range(8):
            bench.put(index)
        bench.worker.step(bench.sessions)
    assert bench.worker.busy.fraction(bench.now_ns) == pytest.approx(1.0)
