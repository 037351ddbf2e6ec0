# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What had been heard of a topic by a control tick, which is recorded later than it was commanded."""

from __future__ import annotations

from collections import deque
from typing import Any

LATE_NS = 2_000_000_000  # a tick is published, and recorded, at most so much later than it was commanded


class Newest:
    """The newest message of a topic at a moment that lies a little behind the newest one read."""

    def __init__(self) -> None:
        self._messages: deque[tuple[int, Any]] = deque()

    def add(self, at_ns: int, message: Any) -> None:
        self._messages.append((at_ns, message))
        self._forget_before(at_ns - LATE_NS)  # no tick asks, before the node starts and after it has ended

    def at(self, t_ns: int) -> Any:
        """Return the newest message that was received by then, None without one. Moments do not go back."""
        self._forget_before(t_ns)
        return self._messages[0][1] if self._messages and self._messages[0][0] <= t_ns else None

    def _forget_before(self, t_ns: int) -> None:
        while len(self._messages) > 1 and self._messages[1][0] <= t_ns:
            self._messages.popleft()
