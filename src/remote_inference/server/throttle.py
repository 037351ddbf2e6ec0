# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Limits repeated log lines to one of each kind per period."""

from __future__ import annotations

import threading


class Throttle:
    """Admits one line of each key per period. Any thread may ask."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._admitted_s: dict[str, float] = {}  # time of admission by key, for the last period
        self._lock = threading.Lock()

    def admits(self, key: str, now_s: float) -> bool:
        """Return whether a line of `key` may be logged at `now_s` [s, monotonic], and begin its period."""
        with self._lock:
            self._admitted_s = {
                other: admitted_s
                for other, admitted_s in self._admitted_s.items()
                if now_s - admitted_s < self._period_s
            }
            if key in self._admitted_s:
                return False
            self._admitted_s[key] = now_s
            return True
