# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How `make soak-nodes` judges memory."""

from __future__ import annotations

import pytest
import soak_nodes


@pytest.mark.parametrize(
    ("sizes", "grown"),
    [
        ([100.0] * 50, 1.0),
        ([50.0] * 5 + [100.0] * 45, 1.0),  # the start does not count
        ([100.0 + second for second in range(100)], 194.5 / 114.5),
        ([100.0], 1.0),
    ],
)
def test_growth_compares_the_last_tenth_with_the_second(sizes: list[float], grown: float):
    assert soak_nodes.growth(sizes) == pytest.approx(grown)
