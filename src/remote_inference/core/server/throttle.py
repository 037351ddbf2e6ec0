# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which log lines to leave out: one of a kind is news, a hundred a second are a load of their own."""

from __future__ import annotations

import threading


class Throttle:
    """Admits one line of each key per period, whichever threads ask."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._admitted_s: dict[str, float] = {}  # by key, those of the last period
        self._lock = threading.Lock()

    def admits(self, key: str, now_s: float) -> bool:
        """Tell whether a line may be logged now [s, monotonic]; if so, the key's next has to wait."""
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
