# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The latency window forgets outliers, ignores cold starts and rounds up to control ticks."""

from __future__ import annotations

import math
from dataclasses import astuple

import pytest
from hypothesis import given, strategies as st

from remote_inference.robot.queue.latency import LatencyParts, LatencyWindow, steps


def window_of(*samples_s: float, quantile: float = 0.95) -> LatencyWindow:
    """Return a window past its cold start."""
    window = LatencyWindow(quantile)
    window.add(99.0)
    for sample_s in samples_s:
        window.add(sample_s)
    return window


@pytest.mark.parametrize(
    ("duration_s", "fps", "expected"),
    [
        (0.0, 30, 0),
        (0.001, 30, 1),
        (0.3, 30, 9),
        (0.14, 50, 7),  # 0.14 / (1 / 50) is 7.000000000000001 in floats
        (0.1, 30, 3),
        (0.7, 10, 7),
        (0.3001, 30, 10),
        (1.0, 50, 50),
        (10.0, 30, 300),
    ],
)
def test_steps_round_up_but_not_for_float_noise(duration_s: float, fps: float, expected: int):
    assert steps(duration_s, 1 / fps) == expected


@given(st.integers(0, 3000), st.sampled_from([10.0, 15.0, 20.0, 24.0, 25.0, 30.0, 50.0, 60.0, 100.0]))
def test_a_whole_number_of_periods_is_that_many_steps(count: int, fps: float):
    assert steps(count / fps, 1 / fps) == count


def test_what_is_expected_counts_until_there_is_a_sample():
    window = LatencyWindow(0.95)
    window.expect(0.6)
    assert window.delay_steps(0.05) == 12
    assert window.quantile_s(0.5) is None
    window.add(5.0)  # a cold start
    assert window.delay_steps(0.05) == 12
    window.add(0.2)
    window.expect(0.6)
    assert window.delay_steps(0.05) == 4


def test_the_first_sample_is_a_cold_start():
    window = LatencyWindow(1.0)
    window.add(5.0)
    assert window.quantile_s(1.0) is None
    window.add(0.1)
    assert window.quantile_s(1.0) == pytest.approx(0.1)


def test_the_first_sample_after_a_reconnect_is_not_counted_and_the_older_ones_stay():
    window = window_of(0.1, 0.1)
    window.skip_next()
    window.add(5.0)
    assert window.quantile_s(1.0) == pytest.approx(0.1)
    window.add(0.2)
    assert window.quantile_s(1.0) == pytest.approx(0.2)


def test_reconnecting_twice_without_an_answer_skips_one_sample_only():
    window = window_of()
    window.skip_next()
    window.skip_next()
    window.add(5.0)
    window.add(0.2)
    assert window.quantile_s(0.5) == pytest.approx(0.2)


def test_an_outlier_leaves_the_window_after_100_samples():
    """A lifetime maximum would inflate every later chunk's delay."""
    window = window_of(3.0, *[0.1] * 99, quantile=1.0)
    assert window.delay_steps(0.05) == 60
    window.add(0.1)
    assert window.delay_steps(0.05) == 2


def test_the_default_quantile_shrugs_off_one_outlier_and_the_maximum_does_not():
    samples_s = [3.0, *[0.1] * 99]
    assert window_of(*samples_s, quantile=0.95).delay_steps(0.05) == 2
    assert window_of(*samples_s, quantile=1.0).delay_steps(0.05) == 60


def test_the_default_quantile_follows_a_tenth_of_slow_cycles():
    assert window_of(*[0.1] * 90, *[0.4] * 10).delay_steps(0.05) == 8


@given(st.lists(st.floats(0, 10), min_size=1, max_size=300), st.floats(0, 1))
def test_quantiles_lie_within_the_last_100_samples(samples_s: list[float], quantile: float):
    value = window_of(*samples_s).quantile_s(quantile)
    last = samples_s[-100:]
    assert value is not None
    assert min(last) - 1e-9 <= value <= max(last) + 1e-9


def test_the_parts_of_the_newest_cycle_make_it_up_also_of_one_that_is_left_out():
    window = LatencyWindow(0.95)
    assert math.isnan(window.newest.transport_ms)
    window.add(0.1, queue_wait_ms=5.0, inference_ms=60.0)
    assert astuple(window.newest) == pytest.approx((5.0, 60.0, 35.0))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ((150.0, 60.0), (100.0, 0.0, 0.0)),
        ((5.0, math.inf), (5.0, 95.0, 0.0)),
        ((-3e38, -3e38), (0.0, 0.0, 100.0)),
    ],
)
def test_a_server_s_parts_are_believed_within_the_cycle(
    said: tuple[float, float], expected: tuple[float, float, float]
):
    assert astuple(LatencyParts.of(0.1, *said)) == pytest.approx(expected)
