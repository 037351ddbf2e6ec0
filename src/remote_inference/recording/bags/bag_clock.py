# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The clock of a recording: wall time at its start, and from there on as steady as the monotonic clock.

So messages stay in order when somebody sets the wall clock, which robots without a battery do after each
start.
"""

from __future__ import annotations

import time
from collections.abc import Callable

JUMP_NS = 50_000_000  # smaller steps are those of reading two clocks one after the other on a busy machine


class BagClock:
    """Gives stamps, and tells when the wall clock has left them."""

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self._offset_ns = wall_ns() - steady_ns()
        self._jumped_ns = 0

    def now_ns(self) -> int:
        """Return the stamp of this moment."""
        return self._steady_ns() + self._offset_ns

    def find_jump(self) -> dict[str, str]:
        """Return the values of a record CLOCK when the wall clock has jumped since the last call, else none.

        jump_s: its step. ahead_s: the wall clock minus the bag's from now on.
        """
        now_ns = self.now_ns()
        ahead_ns = self._wall_ns() - now_ns
        jump_ns = ahead_ns - self._jumped_ns
        if abs(jump_ns) < JUMP_NS:
            return {}
        self._jumped_ns = ahead_ns
        return {"at_ns": str(now_ns), "jump_s": f"{jump_ns * 1e-9:.3f}", "ahead_s": f"{ahead_ns * 1e-9:.3f}"}
