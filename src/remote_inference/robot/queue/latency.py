# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The latency window: how long a request cycle took lately, and how many control ticks that is."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import islice

WINDOW = 100  # cycles
RECENT = 9  # cycles of which the typical latency is: a server that becomes slow is known to be after five


def steps(duration_s: float, period_s: float) -> int:
    """Return the control ticks that begin within a duration: `ceil(duration / period)`."""
    # The subtraction keeps 0.14 s at 50 Hz at 7 steps where the quotient is 7.000000000000001.
    return max(0, math.ceil(duration_s / period_s - 1e-9))


PATIENCE = 1.5  # times the expected latency
SHORTEST_WAIT_S = 0.05  # for an answer: below lies the jitter of the processes on both sides


def patience_s(typical_s: float, expected_s: float, playback_left_s: float) -> float:
    """Return how long to wait for an answer before asking again [s]: a lost message must not stop a robot.

    typical_s: the median of late. expected_s: one that is hardly ever exceeded, but now and then, hence
    PATIENCE. There is less of it when an answer that is asked for now still comes before the queue runs
    empty, and would not later; and least for a robot that stands, or will: what is lost there is motion.
    """
    typical_s, expected_s = max(typical_s, SHORTEST_WAIT_S), max(expected_s, SHORTEST_WAIT_S)
    if playback_left_s < expected_s:
        return PATIENCE * typical_s
    return expected_s if playback_left_s <= PATIENCE * expected_s else PATIENCE * expected_s


@dataclass(frozen=True)
class LatencyParts:
    """What the newest merged chunk took from its request to its arrival [ms]; NaN before the first.

    transport_ms: what is left of the cycle: the network both ways, and requests that a newer one replaced.
    """

    queue_wait_ms: float = math.nan
    inference_ms: float = math.nan
    transport_ms: float = math.nan

    @classmethod
    def of(cls, cycle_s: float, queue_wait_ms: float, inference_ms: float) -> LatencyParts:
        """Return the parts of a cycle. The server says its own two, and is believed within the whole."""
        left_ms = 1e3 * cycle_s
        wait_ms = min(max(queue_wait_ms, 0.0), left_ms)
        left_ms -= wait_ms
        computed_ms = min(max(inference_ms, 0.0), left_ms)
        return cls(wait_ms, computed_ms, left_ms - computed_ms)


class LatencyWindow:
    """The last request cycles, publish to chunk, in seconds.

    A lifetime maximum would let one outlier inflate the delay of every later chunk; a window forgets it. The
    first cycle after a (re)connect is not counted: it pays for cold caches and connections.
    """

    def __init__(self, quantile: float) -> None:
        """quantile: of the window, for `delay_steps`; 1.0 is the window's maximum."""
        self._quantile = quantile
        self._samples_s: deque[float] = deque(maxlen=WINDOW)
        self._expected_s = 0.0
        self._skip_next = True
        self.newest = LatencyParts()  # of the last cycle, also of one that is left out

    def expect(self, latency_s: float) -> None:
        """Set what counts until there is a sample."""
        self._expected_s = latency_s

    def add(self, latency_s: float, queue_wait_ms: float = 0.0, inference_ms: float = 0.0) -> None:
        """Add a cycle. queue_wait_ms, inference_ms: what its server says of it."""
        self.newest = LatencyParts.of(latency_s, queue_wait_ms, inference_ms)
        if self._skip_next:
            self._skip_next = False
        else:
            self._samples_s.append(latency_s)

    def skip_next(self) -> None:
        """Leave the next cycle out."""
        self._skip_next = True

    def quantile_s(self, quantile: float) -> float | None:
        """Return a quantile of the window [s], or None before the first sample."""
        if not self._samples_s:
            return None
        # Linear between neighbours, as numpy.quantile, which takes ten times as long on a window.
        ordered = sorted(self._samples_s)
        below, fraction = divmod(quantile * (len(ordered) - 1), 1.0)
        low = ordered[int(below)]
        high = ordered[min(int(below) + 1, len(ordered) - 1)]
        return low + fraction * (high - low)

    def typical_s(self) -> float | None:
        """Return the median of the last few cycles [s], or None before the first sample."""
        recent = sorted(islice(reversed(self._samples_s), RECENT))
        return recent[len(recent) // 2] if recent else None

    def delay_steps(self, period_s: float) -> int:
        """Return the delay to expect of the next cycle in control ticks."""
        latency_s = self.quantile_s(self._quantile)
        return steps(self._expected_s if latency_s is None else latency_s, period_s)
