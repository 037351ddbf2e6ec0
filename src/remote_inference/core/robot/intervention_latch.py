# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether the guard changes so many of the policy's commands that the policy must be out of its domain."""

from __future__ import annotations

from collections import Counter, deque


class InterventionLatch:
    """Looks at the last `window` commands of the policy. For one thread."""

    def __init__(self, max_ratio: float, window: int) -> None:
        """max_ratio: fraction of the window that the guard may change; 0 switches the latch off."""
        self._max_ratio = max_ratio
        self._last: deque[tuple[str, ...]] = deque(maxlen=window)
        self._window = window
        self._changed = 0  # of `_last`

    def forget(self) -> None:
        """Begin with an empty window."""
        self._last.clear()
        self._changed = 0

    def take(self, interventions: tuple[str, ...]) -> str:
        """Take the rules that altered or refused one command; return why the robot must stop, or ''.

        A window that stops the robot is forgotten: after `resume` the next one must fill first.
        """
        if not self._max_ratio:
            return ""
        if len(self._last) == self._window:
            self._changed -= bool(self._last[0])
        self._last.append(interventions)
        self._changed += bool(interventions)
        if len(self._last) < self._window or self._changed <= self._max_ratio * self._window:
            return ""
        reason = self._describe()
        self.forget()
        return reason

    def _describe(self) -> str:
        rules = Counter(rule for interventions in self._last for rule in interventions)
        named = ", ".join(f"{rule} {count}" for rule, count in sorted(rules.items()))
        return (
            f"guard: it changed {self._changed} of the last {self._window} commands ({named}), "
            f"max_clamped_ratio is {self._max_ratio:g}"
        )
