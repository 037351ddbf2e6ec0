# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How late a loaded machine lets threads wake: what a bound on another process's time must allow for."""

from __future__ import annotations

import threading
import time
from collections import deque

PERIOD_S = 0.01
REMEMBERED = 60_000  # ten minutes of periods


class MachineStalls:
    """A thread that sleeps for short periods, and notes by how much it overslept. End it with `close`."""

    def __init__(self) -> None:
        self._overslept: deque[tuple[int, float]] = deque(maxlen=REMEMBERED)  # time woken [ns], by how much
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalls", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        self._thread.join()

    def longest_s(self, begin_ns: int) -> float:
        """Return the longest oversleep since a wall-clock time, 0.0 for a machine that is idle."""
        return max(
            (late_s for woken_ns, late_s in list(self._overslept) if woken_ns >= begin_ns), default=0.0
        )

    def _run(self) -> None:
        while True:
            begin_s = time.monotonic()
            if self._end.wait(PERIOD_S):
                return
            late_s = time.monotonic() - begin_s - PERIOD_S
            self._overslept.append((time.time_ns(), max(0.0, late_s)))
