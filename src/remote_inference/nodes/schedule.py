# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a node does periodically, between the callbacks of its executor.

rclpy's own timers are not used: once they take longer than their periods, as on a busy machine, its events
executor runs nothing else, and a service is answered after many seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

LEFT_TO_CALLBACKS = 0.25  # at least this much of the time that a run took passes until the next one
SHORTEST_WAIT_S = 0.001  # an executor that is given less may run nothing


@dataclass(eq=False)
class Periodic:
    """A function that is called periodically."""

    period_s: float
    call: Callable[[], None]
    due_s: float  # on the schedule's clock; of the next run already while `call` runs


class Schedule:
    """The periodic calls of one node, made on its executor's thread.

    A call that comes late is made once, and later ones keep to the period's grid.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """now_s: a clock that `use_sim_time` does not stop [s]."""
        self._now_s = now_s
        self._periodics: list[Periodic] = []
        self._earliest_s = -math.inf  # no call is made before

    def every(self, period_s: float, call: Callable[[], None]) -> Periodic:
        """Call a function every period, first after one period."""
        periodic = Periodic(period_s, call, self._now_s() + period_s)
        self._periodics.append(periodic)
        return periodic

    def wait_s(self) -> float:
        """Return how long the executor may run callbacks until the next call [s]; infinite without any."""
        due_s = min((periodic.due_s for periodic in self._periodics), default=math.inf)
        return max(max(due_s, self._earliest_s) - self._now_s(), SHORTEST_WAIT_S)

    def run_due(self) -> None:
        """Make every call that is due, once."""
        begin_s = self._now_s()
        if begin_s < self._earliest_s:
            return
        due = [periodic for periodic in self._periodics if periodic.due_s <= begin_s]
        for periodic in due:
            missed = math.floor((begin_s - periodic.due_s) / periodic.period_s)
            periodic.due_s += (missed + 1) * periodic.period_s
            periodic.call()
        if due:
            end_s = self._now_s()
            self._earliest_s = end_s + LEFT_TO_CALLBACKS * (end_s - begin_s)
