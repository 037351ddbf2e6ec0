# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes to a disk on a thread of its own: the disk may be slow, full or gone."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class BackgroundWriter(Generic[Entry]):
    """Writes entries one after another on a thread of its own.

    An entry that cannot be written, or that meets a queue with too many entries or bytes, is dropped and
    counted by its kind. Then the next entry is tried; a writer that stops at a failure drops all later
    entries.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Entry], object],
        waiting_max: int,
        on_drop: Callable[[str], None] = lambda _: None,
        *,
        kind: Callable[[Entry], str] = lambda _: "",
        size: Callable[[Entry], int] = lambda _: 0,
        waiting_bytes_max: int = 0,
        stops_at_failure: bool = False,
    ) -> None:
        """name: the thread's. write: called there. on_drop: called with the reason, where it happens.

        size: bytes of an entry, of which waiting_bytes_max may wait; a single larger one may wait alone.
        """
        self._write = write
        self._on_drop = on_drop
        self._kind = kind
        self._size = size
        self._waiting_bytes_max = waiting_bytes_max
        self._waiting_bytes = 0
        self._stops_at_failure = stops_at_failure
        self._waiting: queue.Queue[Entry | None] = queue.Queue(waiting_max)
        self._closed = False
        self._dropped: Counter[str] = Counter()
        self._lock = threading.Lock()  # of the counts
        self.failure: Exception | None = None  # the error that stopped the writing
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Entries lost so far."""
        with self._lock:
            return self._dropped.total()

    def dropped_of(self, kind: str) -> int:
        """Return how many entries of a kind are lost so far."""
        with self._lock:
            return self._dropped[kind]

    def put(self, entry: Entry) -> bool:
        """Queue an entry, or drop it, and return whether it is queued; never blocks. For one thread."""
        size = self._size(entry)
        try:
            if self._closed or not self._has_room(size):
                raise queue.Full
            self._waiting.put_nowait(entry)
        except queue.Full:
            self._drop(entry, "closed" if self._closed else "the disk does not keep up")
            return False
        self._add_waiting(size)
        return True

    def _has_room(self, size: int) -> bool:
        with self._lock:
            is_bound = self._waiting_bytes_max > 0 and self._waiting_bytes > 0
            return not is_bound or self._waiting_bytes + size <= self._waiting_bytes_max

    def _add_waiting(self, size: int) -> None:
        with self._lock:
            self._waiting_bytes += size

    def close(self, timeout_s: float) -> bool:
        """Write the waiting entries and end. After timeout_s, drop the rest and return False."""
        deadline_s = time.monotonic() + timeout_s
        self._closed = True
        with suppress(queue.Full):
            self._waiting.put(None, timeout=timeout_s)
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        self._abandon()
        return not self._thread.is_alive()

    def _abandon(self) -> None:
        """Drop the waiting entries; the thread ends after the write in progress."""
        with suppress(queue.Empty):
            while True:
                if (entry := self._waiting.get_nowait()) is not None:
                    self._count(entry)
        with suppress(queue.Full):  # an entry may have been put during the closing
            self._waiting.put_nowait(None)

    def _run(self) -> None:
        while self.failure is None and (entry := self._waiting.get()) is not None:
            self._try(entry)
        if self.failure is not None:
            self._abandon()

    def _try(self, entry: Entry) -> None:
        try:
            self._write(entry)
        except Exception as error:  # a full disk or a missing folder costs this entry only
            self._drop(entry, f"{type(error).__name__}: {error}")
            if self._stops_at_failure:
                self._closed = True
                self.failure = error
        finally:
            self._add_waiting(-self._size(entry))

    def _drop(self, entry: Entry, reason: str) -> None:
        self._count(entry)
        self._on_drop(reason)

    def _count(self, entry: Entry) -> None:
        with self._lock:
            self._dropped[self._kind(entry)] += 1
