# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a plan goes on, for commands whose jerk is bounded: samples of it, and curves through them.

Such a command changes its velocity only slowly, so it must know where the plan is, and how it moves there,
when it can be there. The curve is the cubic through the four samples about an instant. A plan that is too
rough for the bound has errors of its rows in it, of each of which a command would be late: of it, the curve
is the parabola through all samples, by least squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from remote_inference.robot.command import BoolArray, Float64Array

SAMPLES = 6  # of a span, beside the next ticks
LONGEST_S = 0.3  # a plan is not much longer
SHARE = 0.6  # of the bound that a plan may need for itself: the rest is for the way to it
NEXT = (1, 2, 3, 4)  # ticks, whose fourth difference errors of rows make much larger than any curve does
FOURTH = (1.0, -4.0, 6.0, -4.0, 1.0)
NOISE = 0.25  # of the bound, by which the jerk may change from tick to tick


class Trend:
    """Looks ahead over a span: twice the time from one bound of acceleration to the other.

    0.0 s where nothing has a bound of jerk: there the next tick is enough.
    """

    def __init__(self, span_s: float, period_s: float) -> None:
        self.span = max(NEXT[-1], round(min(span_s, LONGEST_S) / period_s)) if span_s else 0
        """Ticks from the wanted point on, up to which the plan is known."""
        places = sorted({round(step * self.span / SAMPLES) for step in range(1, SAMPLES + 1)} - {0})
        self.ticks = tuple(sorted({*NEXT, *places})) if span_s else (1,)
        """Of the samples, from the wanted point on."""
        self._period_s = period_s
        if not span_s:
            return
        known, even = [0, *self.ticks], [0, *places]
        # The third derivative of the cubic through each four samples, and how much it changes in a tick, by
        # what of the bound a plan may need.
        self._jerks = np.zeros((max(1, len(even) - 2), len(known)))
        self._jerks[0, [known.index(tick) for tick in (0, *NEXT)]] = np.array(FOURTH) / (NOISE * period_s**3)
        for row in range(len(even) - 3):
            four = even[row : row + 4]
            cubic = self._fit(four, 0, 3)[0]
            self._jerks[row + 1, [known.index(tick) for tick in four]] = 6.0 * cubic / SHARE
        # Of each tick place, velocity and acceleration from the samples: of what is rough, and of the rest.
        curves = np.zeros((2, self.span + 1, 4, len(known)))
        for tick in range(self.span + 1):
            first = min(max(0, int(np.searchsorted(known, tick)) - 2), len(known) - 4)
            for rough, (chosen, order) in enumerate([(known[first : first + 4], 3), (even, 2)]):
                found = self._fit(chosen, tick, order)[::-1]
                for power, row in enumerate(found):
                    curves[rough, tick, power, [known.index(one) for one in chosen]] = row
        self._rows: list[list[list[list[float]]]] = curves[..., 1:].tolist()

    def _fit(self, ticks: Sequence[int], origin: int, order: int) -> Float64Array:
        """Return what samples at some ticks say of a polynomial about another one, highest power first."""
        times_s = self._period_s * (np.array(ticks) - origin)
        found: Float64Array = np.linalg.pinv(np.vander(times_s, order + 1)).astype(np.float64)
        return found

    def is_rough(self, ways: Float64Array, most_jerk: Float64Array) -> BoolArray:
        """Return whether a plan needs too much of the bounds `[columns]` for itself, `[..., columns]`.

        ways `[samples, ..., columns]`: from the wanted point to the samples.
        """
        jerks = np.abs(np.tensordot(self._jerks[:, 1:], ways, axes=1)).max(axis=0)
        rough: BoolArray = jerks > most_jerk
        return rough

    def at(self, ways: Sequence[float], time_s: float, *, is_rough: bool) -> tuple[float, float, float]:
        """Return place, velocity and acceleration of a plan a time after the wanted point, seen from there.

        ways `[samples]`: of one column.
        """
        tick = min(self.span, max(0, round(time_s / self._period_s)))
        rest_s = time_s - tick * self._period_s
        place, velocity, half, sixth = (
            math.fsum(part * way for part, way in zip(row, ways, strict=True))
            for row in self._rows[is_rough][tick]
        )
        return (
            place + rest_s * (velocity + rest_s * (half + rest_s * sixth)),
            velocity + rest_s * (2.0 * half + 3.0 * rest_s * sixth),
            2.0 * half + 6.0 * rest_s * sixth,
        )

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
