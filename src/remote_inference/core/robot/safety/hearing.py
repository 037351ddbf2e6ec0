# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Until when the executor has surely run what came: what waited while it hung is not new."""

from __future__ import annotations

UNHEARD_NS = 50_000_000  # without a round of the executor: what came may wait
# Rounds that go on for so long have run whatever waited: one takes well below a millisecond.
CATCH_UP_NS = 100_000_000
SETTLE_NS = 1_000_000_000  # an executor that still has pauses after this time is slow, and runs what comes


class Hearing:
    """Takes a note of each round. For the executor's thread; others may read."""

    def __init__(self, now_ns: int) -> None:
        self.heard_ns = now_ns
        """Monotonic time [ns] until which everything that came was run."""
        self._noted_ns = now_ns
        self._caught_up_ns = now_ns
        self._behind_since_ns: int | None = None

    def note(self, now_ns: int) -> None:
        """Note a round. After a hang, each one may have run only a part of what waited."""
        if now_ns - self._noted_ns > UNHEARD_NS:
            self._caught_up_ns = now_ns + CATCH_UP_NS
            if self._behind_since_ns is None:
                self._behind_since_ns = now_ns
        self._noted_ns = now_ns
        if now_ns >= self._caught_up_ns:
            self._behind_since_ns = None
        if self._behind_since_ns is None or now_ns - self._behind_since_ns > SETTLE_NS:
            self.heard_ns = now_ns
