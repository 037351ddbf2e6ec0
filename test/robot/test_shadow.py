# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Shadow mode's comparison of would-be commands with the arm."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from remote_inference.robot.motion.playback import ShadowComparison

VALUES = st.lists(st.tuples(*[st.floats(-3.0, 3.0)] * 4), min_size=1, max_size=50)


@given(VALUES)
def test_mean_and_largest_difference_are_those_of_all_ticks(values: list[tuple[float, ...]]):
    comparison = ShadowComparison(2)
    rows = np.array(values)
    for row in rows:
        comparison.add(row[:2], row[2:], 1)
    differences = np.abs(rows[:, :2] - rows[:, 2:])
    assert comparison.error.ticks == len(rows)
    np.testing.assert_allclose(comparison.error.mean, differences.mean(axis=0), atol=1e-12)
    np.testing.assert_array_equal(comparison.error.largest, differences.max(axis=0))
    comparison.add(np.ones(2), np.zeros(2), 2)
    assert (comparison.error.ticks, comparison.error.mean.tolist()) == (1, [1.0, 1.0])  # of this episode
