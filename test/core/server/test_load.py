# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The load that a server reports: the busy fraction of the last seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from bench import Bench

from remote_inference.core.server.worker import LOAD_WINDOW_NS, BusyMeter


def test_load_is_the_busy_fraction_of_the_window():
    meter = BusyMeter()
    assert meter.fraction(0) == 0.0
    second = LOAD_WINDOW_NS // 5
    meter.add(0, second)
    assert meter.fraction(second) == pytest.approx(0.2)
    assert meter.fraction(LOAD_WINDOW_NS + second // 2) == pytest.approx(0.1)
    assert meter.fraction(2 * LOAD_WINDOW_NS) == 0.0


def test_load_never_leaves_zero_to_one():
    bench = Bench()
    healthy = bench.policy.answer

    def hog(batch: Sequence[Any]) -> Any:
        bench.now_ns += LOAD_WINDOW_NS // 4
        return healthy(batch)

    bench.policy.answer = hog
    for seq_id in range(9):
        bench.put(0, seq_id=seq_id)
        (chunk,) = bench.serve()
        assert 0.0 <= chunk.server_load <= 1.0
    assert bench.worker.busy.fraction(bench.now_ns) == 1.0


def test_the_load_in_a_chunk_counts_the_work_that_made_it():
    """A worker that is busy all the time with slow inferences must not call itself idle."""
    bench = Bench()
    healthy = bench.policy.answer

    def hog(batch: Sequence[Any]) -> Any:
        bench.now_ns += LOAD_WINDOW_NS // 2
        return healthy(batch)

    bench.policy.answer = hog
    bench.put(0)
    (chunk,) = bench.serve()
    assert chunk.server_load == pytest.approx(0.5)
