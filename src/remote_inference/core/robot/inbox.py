# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What waits for the worker's thread: work of this node, and messages, with which others may flood it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_MESSAGES = 8  # that wait; a robot has one request in flight


class Inbox(Generic[T]):
    """Any thread puts, the worker takes, in order. Of too many messages the newest remain."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: deque[tuple[T, bool]] = deque()  # with whether it is a message
        self._messages = 0
        self._dropped = 0

    def put(self, item: T) -> None:
        """Append what must not be lost."""
        with self._lock:
            self._items.append((item, False))

    def put_message(self, item: T) -> None:
        """Append a message; the oldest one gives way to it when MAX_MESSAGES wait."""
        with self._lock:
            if self._messages == MAX_MESSAGES:
                oldest = next(index for index, (_, is_message) in enumerate(self._items) if is_message)
                del self._items[oldest]
                self._messages -= 1
                self._dropped += 1
            self._items.append((item, True))
            self._messages += 1

    def take_all(self) -> Sequence[T]:
        """Take what waits now, oldest first."""
        with self._lock:
            items, self._items, self._messages = self._items, deque(), 0
        return [item for item, _ in items]

    def take_dropped(self) -> int:
        """Return how many messages have given way since the last call."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        return dropped
