# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A gentle begin: the fraction of the velocity limits that is allowed after the robot was stopped."""

from __future__ import annotations


class BlendIn:
    """Rises from `first` to 1 within `ramp_ns` of the first action after `begin`. For one thread."""

    def __init__(self, first: float, ramp_ns: int) -> None:
        self._first = first
        self._ramp_ns = ramp_ns
        self._waits = False
        self._began_ns: int | None = None

    def begin(self) -> None:
        """Let the next action begin a ramp."""
        self._waits = self._ramp_ns > 0

    def scale(self, now_ns: int) -> float:
        """Return the fraction of the velocity limits for an action that is executed now."""
        if self._waits:
            self._waits, self._began_ns = False, now_ns
        if self._began_ns is None:
            return 1.0
        progress = (now_ns - self._began_ns) / self._ramp_ns
        if progress >= 1.0:
            self._began_ns = None
            return 1.0
        return self._first + progress * (1.0 - self._first)
