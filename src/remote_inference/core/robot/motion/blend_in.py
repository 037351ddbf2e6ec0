# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A gentle begin: the fraction of the velocity limits that is allowed after the robot was stopped."""

from __future__ import annotations


class BlendIn:
    """Rises from `first` to 1 within `ramp_ns` of the first command after `begin`. For one thread."""

    def __init__(self, first: float, ramp_ns: int) -> None:
        self._first = first
        self._ramp_ns = ramp_ns
        self._waits = False
        self._began_ns: int | None = None
        self._misses = False  # some controller hears nothing
        self.keep()

    def begin(self) -> None:
        """Let the next command begin a ramp."""
        self._waits = self._ramp_ns > 0

    def look(self, *, is_astray: bool, is_unheard: bool) -> None:
        """Begin a ramp when what does not follow, or a controller that hears nothing, is back.

        Until then what is astray gets single steps, as small as the first. Others go on without a controller
        that hears nothing.
        """
        if is_astray or (self._misses and not is_unheard):
            self.begin()
        self._misses = is_unheard

    def scale(self, now_ns: int) -> float:
        """Return the fraction of the velocity limits for a command that would leave now."""
        if self._waits:
            return self._first
        if self._began_ns is None:
            return 1.0
        progress = (now_ns - self._began_ns) / self._ramp_ns
        if progress >= 1.0:
            self._began_ns = None
            return 1.0
        return self._first + progress * (1.0 - self._first)

    def take(self, now_ns: int) -> None:
        """Take that a command leaves now."""
        if self._waits:
            self._waits, self._began_ns = False, now_ns

    def keep(self) -> None:
        """Remember how far it is, for `take_back`."""
        self._kept = self._waits, self._began_ns

    def take_back(self) -> None:
        """Take that no command left since `keep`."""
        self._waits, self._began_ns = self._kept
