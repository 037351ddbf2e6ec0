# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bounds the steps along a trajectory: each point is `max_step` at most from the bounded one before it."""

from __future__ import annotations

import numpy as np

from remote_inference.robot.command import Float64Array


def limit_rate(points: Float64Array, begin: Float64Array, max_step: Float64Array) -> Float64Array:
    """Return points `[rows, columns]` within `max_step` `[columns]` of one another, the first of `begin`."""
    found: Float64Array = points.copy()
    last = np.vstack([begin, points[:-1]])
    is_fast = (points < last - max_step) | (points > last + max_step)
    for column in np.flatnonzero(is_fast.any(axis=0)).tolist():
        first = int(is_fast[:, column].argmax())  # the points before it stay
        before = float(points[first - 1, column] if first else begin[column])
        step, bounded = float(max_step[column]), []
        for wanted in points[first:, column].tolist():  # each depends on the one before: no arrays
            if wanted < before - step:
                before -= step
            elif wanted > before + step:
                before += step
            else:
                before = wanted
            bounded.append(before)
        found[first:, column] = bounded
    return found
