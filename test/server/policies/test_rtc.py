# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The weights of real-time chunking: published values, and the cases that no publication mentions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from remote_inference.server.policies.networks.rtc_network import guidance_weight, prefix_weights

CHUNK_SIZE = 12


@pytest.mark.parametrize(
    ("prefix_rows", "delay_steps", "horizon", "expected"),
    [
        (12, 2, 6, [1, 1, 0.8, 0.6, 0.4, 0.2]),
        (12, 0, 4, [0.8, 0.6, 0.4, 0.2]),
        (4, 2, 8, [1, 1, 2 / 3, 1 / 3]),  # the prefix ends before the horizon
        (3, 5, 8, [1, 1, 1]),  # the prefix ends before the delay
        (12, 5, 5, [1, 1, 1, 1, 1]),  # no room for a ramp
        (12, 9, 5, [1, 1, 1, 1, 1]),
        (12, 99, 99, [1] * 12),
        (30, 10, 30, [1] * 10 + [2 / 3, 1 / 3]),  # a prefix longer than the chunk
        (12, -1, 4, [0.8, 0.6, 0.4, 0.2]),
        (0, 3, 8, []),
    ],
)
def test_ones_up_to_the_delay_then_a_ramp_to_the_horizon(
    prefix_rows: int, delay_steps: int, horizon: int, expected: list[float]
):
    weights = prefix_weights(prefix_rows, delay_steps, horizon, CHUNK_SIZE)
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights, expected + [0.0] * (CHUNK_SIZE - len(expected)), atol=1e-6)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 60), st.integers(1, 60))
def test_what_was_not_sent_or_lies_beyond_the_horizon_never_counts(prefix_rows, delay_steps, horizon, size):
    weights = prefix_weights(prefix_rows, delay_steps, horizon, size)
    assert weights.shape == (size,)
    assert not weights[min(prefix_rows, horizon) :].any()
    assert (np.diff(weights) <= 0).all()
    assert (weights[: min(prefix_rows, horizon, delay_steps)] == 1).all()


def test_guidance_is_strongest_at_the_start_and_weakest_half_way():
    assert guidance_weight(0.0, 10.0) == 10.0
    assert guidance_weight(0.01, 10.0) == 10.0
    assert guidance_weight(0.5, 10.0) == pytest.approx(2.0)
    # (1 - t) / t / r^2 with r^2 = (1 - t)^2 / (t^2 + (1 - t)^2)
    assert guidance_weight(0.8, 10.0) == pytest.approx(0.2 / 0.8 * (0.64 + 0.04) / 0.04)
