# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures how long ready work waits for a node's thread, which delays the arrival of messages."""

from __future__ import annotations

import time
from collections import deque

from remote_inference.nodes.schedule import Schedule

PERIOD_S = 0.1
WINDOW_S = 5.0


class ExecutorLag:
    """Measures how late a node's periodic calls are made. Everything happens on the executor's thread."""

    def __init__(self, schedule: Schedule) -> None:
        """schedule: on the clock of time.monotonic."""
        self._late_s = deque([0.0], maxlen=round(WINDOW_S / PERIOD_S))
        self._periodic = schedule.every(PERIOD_S, self._measure)
        self._due_s = self._periodic.due_s

    @property
    def longest_s(self) -> float:
        """The longest lateness in the last WINDOW_S [s]."""
        return max(self._late_s)

    def _measure(self) -> None:
        self._late_s.append(max(0.0, time.monotonic() - self._due_s))
        self._due_s = self._periodic.due_s
