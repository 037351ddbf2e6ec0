# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a plan goes on, for commands whose jerk is bounded.

Such a command changes its velocity only slowly. If it followed every error of a plan's rows, it would be late
for each of them, and swing. So a plan that is too rough for the bound is followed along its trend: the
straight line through its next points, by least squares.
"""

from __future__ import annotations

import numpy as np

from remote_inference.robot.command import Float64Array

SAMPLES = 4  # of a span, beside the next tick
LONGEST_S = 0.3  # a plan is not much longer
SHARE = 0.25  # of the bound that a plan may need for itself: the rest is for the way to it


class Trend:
    """Looks ahead over a span: the time in which a command gets from one bound of acceleration to the other.

    0.0 s where nothing has a bound of jerk: there the next tick is enough.
    """

    def __init__(self, span_s: float, period_s: float) -> None:
        span = round(min(span_s, LONGEST_S) / period_s)
        steps = range(1, SAMPLES + 1) if span >= SAMPLES - 1 else ()
        places = sorted({round(step * span / SAMPLES) for step in steps} - {0})
        self.ticks = (1, *(tick for tick in places if tick != 1))
        """Of the samples, from the wanted point on."""
        self._period_s = period_s
        times_s = period_s * np.array([0, *places])
        self._spans = [place in places for place in self.ticks]
        # The third derivative of the cubic through each four points, and the line through all.
        self._jerks = np.zeros((max(0, len(times_s) - 3), len(times_s)))
        for row in range(len(self._jerks)):
            self._jerks[row, row : row + 4] = 6.0 * np.linalg.inv(np.vander(times_s[row : row + 4]))[0]
        self._line = np.linalg.pinv(np.stack([np.ones_like(times_s), times_s], axis=1))

    def fit(self, ways: Float64Array, most_jerk: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return how far to aim from the wanted point, and the velocity there, both `[..., columns]`.

        ways `[samples, ..., columns]`: from the wanted point to the samples. most_jerk `[columns]`: bounds.
        """
        place, velocity = np.zeros_like(ways[0]), ways[0] / self._period_s
        if not len(self._jerks):
            return place, velocity
        points = np.concatenate([np.zeros_like(ways[:1]), ways[self._spans]])
        jerks = np.abs(np.tensordot(self._jerks, points, axes=1)).max(axis=0)
        line = np.tensordot(self._line, points, axes=1)
        is_rough = jerks > SHARE * most_jerk
        return np.where(is_rough, line[0], place), np.where(is_rough, line[1], velocity)

    def extend(self, points: Float64Array) -> Float64Array:
        """Return the samples of each of some points `[rows, action_dim]`: `[samples, rows, action_dim]`.

        The points are a tick apart. After the last one the plan goes on as before.
        """
        if not len(points):
            return np.empty((len(self.ticks), *points.shape))
        step = points[-1] - points[-2] if len(points) > 1 else np.zeros_like(points[-1])
        beyond = points[-1] + np.arange(1, self.ticks[-1] + 1)[:, np.newaxis] * step
        known, rows = np.concatenate([points, beyond]), len(points)
        return np.stack([known[ticks : ticks + rows] for ticks in self.ticks])
