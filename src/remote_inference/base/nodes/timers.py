# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Periodic calls of a node, between the callbacks of its executor.

rclpy's own timers are not used: once they take longer than their periods, as on a busy machine, its events
executor runs nothing else, and a service is answered after many seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

CALLBACK_SHARE = 0.25  # of the time that a run of timers took: as long at least until the next run
SHORTEST_WAIT_S = 0.001  # an executor that is given less may run nothing


@dataclass(eq=False)
class Timer:
    """A periodic call."""

    period_s: float
    call: Callable[[], None]
    due_s: float  # of the next call [s], on the schedule's clock


class TimerSchedule:
    """The periodic calls of one node, made on its executor's thread.

    A call that comes late is made once, and later ones keep to the period's grid.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """now_s: a clock that `use_sim_time` does not stop [s]."""
        self._now_s = now_s
        self._timers: list[Timer] = []
        self._earliest_s = -math.inf  # no call is made before

    def every(self, period_s: float, call: Callable[[], None]) -> Timer:
        """Call a function every period, first after one period."""
        timer = Timer(period_s, call, self._now_s() + period_s)
        self._timers.append(timer)
        return timer

    def wait_s(self) -> float:
        """Return how long the executor may run callbacks until the next call [s]; infinite without any."""
        due_s = min((timer.due_s for timer in self._timers), default=math.inf)
        return max(max(due_s, self._earliest_s) - self._now_s(), SHORTEST_WAIT_S)

    def run_due(self) -> None:
        """Make every call that is due, once."""
        begin_s = self._now_s()
        if begin_s < self._earliest_s:
            return
        due = [timer for timer in self._timers if timer.due_s <= begin_s]
        for timer in due:
            missed = math.floor((begin_s - timer.due_s) / timer.period_s)
            timer.due_s += (missed + 1) * timer.period_s
            timer.call()
        if due:
            end_s = self._now_s()
            self._earliest_s = end_s + CALLBACK_SHARE * (end_s - begin_s)
