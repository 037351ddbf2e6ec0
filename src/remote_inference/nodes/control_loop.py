# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The control thread: one command per period, at absolute deadlines of the monotonic clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

LATE_FRACTION = 0.5  # of a period


class ControlLoop:
    """Calls `tick(deadline_ns, index)` once per period until stopped.

    A period that is missed whole is skipped, not caught up with a burst.
    """

    def __init__(self, period_s: float, tick: Callable[[int, int], None]) -> None:
        self._period_ns = round(period_s * 1e9)
        self._tick = tick
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self.ticks = 0
        self.late_ticks = 0
        self.error: Exception | None = None  # what ended the thread, None while all is well

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; it finishes the tick it is in."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:  # reported by the node, which stops
            self.error = error

    def _loop(self) -> None:
        deadline_ns = time.monotonic_ns()
        while not self._stop.is_set():
            wait_ns = deadline_ns - time.monotonic_ns()
            if wait_ns > 0:
                time.sleep(wait_ns / 1e9)
            now_ns = time.monotonic_ns()
            if now_ns - deadline_ns > LATE_FRACTION * self._period_ns:
                self.late_ticks += 1
            self._tick(now_ns, self.ticks)
            self.ticks += 1
            missed = max(0, (time.monotonic_ns() - deadline_ns) // self._period_ns)
            deadline_ns += (missed if missed > 1 else 1) * self._period_ns
