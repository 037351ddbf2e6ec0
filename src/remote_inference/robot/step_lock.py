# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The lock of all threads of a robot, held for one control tick or one operation, and the worker's inbox.

Operations of other threads (reading the queue, a merge, a changed operator command) are counted. So each tick
falls between two of them, and the count says between which.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from threading import get_ident
from typing import Generic, TypeVar

# -- What waits for the worker's thread: work of this node, and messages, of which too many may come


T = TypeVar("T")

MAX_MESSAGES = 8  # that wait; a robot has one request in flight


class Inbox(Generic[T]):
    """Any thread puts, the worker takes, in order. Of too many messages the newest remain."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: deque[tuple[T, bool]] = deque()  # with whether it is a message
        self._dropped = 0

    def put(self, item: T) -> None:
        """Append what must not be lost."""
        with self._lock:
            self._items.append((item, False))

    def put_message(self, item: T) -> None:
        """Append a message; the oldest one gives way to it when MAX_MESSAGES wait."""
        with self._lock:
            messages = [index for index, (_, is_message) in enumerate(self._items) if is_message]
            if len(messages) == MAX_MESSAGES:
                del self._items[messages[0]]
                self._dropped += 1
            self._items.append((item, True))

    def take_all(self) -> Sequence[T]:
        """Remove and return what waits now, oldest first."""
        with self._lock:
            items, self._items = self._items, deque()
        return [item for item, _ in items]

    def take_dropped(self) -> int:
        """Return how many messages have given way since the last call."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        return dropped


class StepLock:
    """A lock for one tick or one short operation; a thread that holds it may enter it again.

    Operations are counted while their thread is in a call of the engine. The ticks and inputs of other
    threads each fall between two of them.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0  # of the thread that has the lock
        self._caller: int | None = None  # the thread in a call of the engine
        self.number = 0  # operations counted so far

    def begin_call(self) -> None:
        """Count the operations of this thread from now on."""
        self._caller = get_ident()

    def end_call(self) -> None:
        """Count no operations until the next call."""
        self._caller = None

    def __enter__(self) -> None:
        self._lock.acquire()
        if not self._depth and self._caller == get_ident():
            self.number += 1
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        self._lock.release()
