# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures how busy the worker is: the busy fraction of the last seconds, with the step in progress."""

from __future__ import annotations

import threading
from collections import deque

LOAD_WINDOW_NS = 5_000_000_000


class BusyMeter:
    """Fraction of the last seconds in which the worker was busy; times are its monotonic clock [ns]."""

    def __init__(self) -> None:
        self._spans: deque[tuple[int, int]] = deque()
        self._busy_ns = 0  # sum of the spans
        self._begun_ns: int | None = None  # start of the step in progress
        self._lock = threading.Lock()  # the worker writes, services and status read

    def begin(self, now_ns: int) -> None:
        """Note that a step begins. Its time so far counts until `add` is called."""
        with self._lock:
            self._begun_ns = now_ns

    def add(self, begin_ns: int, end_ns: int) -> None:
        """Add a step that has ended."""
        with self._lock:
            self._begun_ns = None
            self._spans.append((begin_ns, end_ns))
            self._busy_ns += end_ns - begin_ns

    def running_s(self, now_ns: int) -> float:
        """Return how long the step in progress has lasted [s], 0 between steps."""
        with self._lock:
            return 0.0 if self._begun_ns is None else max(0, now_ns - self._begun_ns) / 1e9

    def fraction(self, now_ns: int) -> float:
        """Return the busy fraction of the window, 0 to 1."""
        oldest_ns = now_ns - LOAD_WINDOW_NS
        with self._lock:
            while self._spans and self._spans[0][1] <= oldest_ns:
                begin_ns, end_ns = self._spans.popleft()
                self._busy_ns -= end_ns - begin_ns
            outside_ns = max(0, oldest_ns - self._spans[0][0]) if self._spans else 0
            running_ns = 0 if self._begun_ns is None else max(0, now_ns - max(self._begun_ns, oldest_ns))
            return min(1.0, (self._busy_ns - outside_ns + running_ns) / LOAD_WINDOW_NS)
