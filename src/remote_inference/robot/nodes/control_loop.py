# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The control thread: one command per period, at absolute deadlines of the monotonic clock."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

LATE_FRACTION = 0.5  # of a period
LONGEST_SLEEP_S = 0.2  # a slow loop ends before its next tick


class ControlLoop:
    """Calls `tick(now_ns)` once per period until stopped.

    The deadlines lie on a grid that never shifts. A period that is missed whole is skipped, not caught up
    with a burst.
    """

    def __init__(
        self,
        period_s: float,
        tick: Callable[[int], None],
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        self._period_ns = round(period_s * 1e9)
        self._tick = tick
        self._clock_ns = clock_ns
        self._sleep_s = sleep_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self.ticks = 0
        self.late_ticks = 0
        self.error: Exception | None = None  # error that ended the thread, None while there is none

    def start(self) -> None:
        """Start the thread, and exempt all present objects from garbage collection for good."""
        # Collecting stops every thread, for tens of ms when it walks the objects of the imports. Objects
        # allocated from here on are still collected.
        gc.collect()
        gc.freeze()
        self._thread.start()

    def stop(self) -> bool:
        """End the thread, which finishes the tick it is in; return whether it has ended."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:  # reported by the node, which stops
            self.error = error

    def _loop(self) -> None:
        deadline_ns = self._clock_ns()
        while not self._stop.is_set():
            if (wait_ns := deadline_ns - self._clock_ns()) > 0:
                self._sleep_s(min(wait_ns / 1e9, LONGEST_SLEEP_S))
                if wait_ns > LONGEST_SLEEP_S * 1e9:
                    continue
            now_ns = self._clock_ns()
            late_ns = now_ns - deadline_ns
            if late_ns > LATE_FRACTION * self._period_ns:
                self.late_ticks += 1
            self._tick(now_ns)
            self.ticks += 1
            # From the tick's begin, not its end: after a pause, the next tick is due when its period begins.
            deadline_ns += (max(0, late_ns) // self._period_ns + 1) * self._period_ns
