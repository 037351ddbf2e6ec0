# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes to a disk on a thread of its own: the disk may be slow, full or gone."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
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
        self._waiting: deque[Entry] = deque()
        self._waiting_max = waiting_max
        self._waiting_bytes = 0  # that in writing included
        self._waiting_bytes_max = waiting_bytes_max
        self._stops_at_failure = stops_at_failure
        self._closed = False
        self._dropped: Counter[str] = Counter()
        self._changed = threading.Condition()  # guards queue and counts
        self.failure: Exception | None = None  # the error that stopped the writing
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Entries lost so far."""
        with self._changed:
            return self._dropped.total()

    def dropped_of(self, kind: str) -> int:
        """Return how many entries of a kind are lost so far."""
        with self._changed:
            return self._dropped[kind]

    def put(self, entry: Entry) -> bool:
        """Queue an entry, or drop it, and return whether it is queued; never blocks. For one thread."""
        size = self._size(entry)
        with self._changed:
            is_heavy = self._waiting_bytes > 0 and 0 < self._waiting_bytes_max < self._waiting_bytes + size
            if not (self._closed or is_heavy or len(self._waiting) >= self._waiting_max):
                self._waiting.append(entry)
                self._waiting_bytes += size
                self._changed.notify_all()
                return True
        self._drop(entry, "closed" if self._closed else "the disk does not keep up")
        return False

    def close(self, timeout_s: float) -> bool:
        """Write the waiting entries and end. After timeout_s, drop the rest and return False."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        self._abandon()
        return not self._thread.is_alive()

    def _abandon(self) -> None:
        """Drop the waiting entries; the thread ends after the write in progress."""
        with self._changed:
            self._dropped.update(map(self._kind, self._waiting))
            self._waiting.clear()

    def _run(self) -> None:
        while (entry := self._take()) is not None:
            self._try(entry)
        self._abandon()

    def _take(self) -> Entry | None:
        """Wait for an entry and return it; None once a closed writer has no more, and after a failure."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            return self._waiting.popleft() if self._waiting and self.failure is None else None

    def _try(self, entry: Entry) -> None:
        try:
            self._write(entry)
        except Exception as error:  # a full disk or a missing folder costs this entry only
            self._drop(entry, f"{type(error).__name__}: {error}")
            if self._stops_at_failure:
                self._closed = True
                self.failure = error
        finally:
            with self._changed:
                self._waiting_bytes -= self._size(entry)

    def _drop(self, entry: Entry, reason: str) -> None:
        with self._changed:
            self._dropped[self._kind(entry)] += 1
        self._on_drop(reason)
