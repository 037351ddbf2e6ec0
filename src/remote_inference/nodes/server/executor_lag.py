# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures how long ready work waits for an executor, which delays the arrival of messages."""

from __future__ import annotations

import time
from collections import deque

from rclpy.node import Node

from remote_inference.nodes.runtime import STEADY_CLOCK

PERIOD_S = 0.1
WINDOW_S = 5.0


class ExecutorLag:
    """Measures how late a node's timer runs. Everything happens on the executor's thread."""

    def __init__(self, node: Node) -> None:
        self._late_ns = deque([0], maxlen=round(WINDOW_S / PERIOD_S))
        self._due_ns = time.monotonic_ns() + int(PERIOD_S * 1e9)
        self._timer = node.create_timer(PERIOD_S, self._measure, clock=STEADY_CLOCK)

    @property
    def longest_s(self) -> float:
        """The longest lateness in the last WINDOW_S [s]."""
        return max(self._late_ns) / 1e9

    def _measure(self) -> None:
        now_ns = time.monotonic_ns()
        self._late_ns.append(max(0, now_ns - self._due_ns))
        self._due_ns = now_ns + self._timer.time_until_next_call()  # rclpy skips missed periods
