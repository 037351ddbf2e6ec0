# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One slot per session in which the newest request wins; what it replaces is counted."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Letter:
    """A serialized request and its arrival on the server's monotonic clock."""

    data: bytes
    arrival_ns: int
    superseded: int  # requests replaced since the last one served


class Mailbox:
    """Newest-wins slot. Bytes go in undecoded, so a superseded request costs nothing."""

    def __init__(self) -> None:
        self._letter: Letter | None = None
        self._lock = threading.Lock()
        self.superseded_total = 0

    def put(self, data: bytes, arrival_ns: int) -> None:
        with self._lock:
            superseded = 0
            if self._letter is not None:
                superseded = self._letter.superseded + 1
                self.superseded_total += 1
            self._letter = Letter(data, arrival_ns, superseded)

    def take(self) -> Letter | None:
        with self._lock:
            letter, self._letter = self._letter, None
            return letter

    @property
    def arrival_ns(self) -> int | None:
        """Arrival of the waiting request, None when the slot is empty."""
        letter = self._letter
        return None if letter is None else letter.arrival_ns

    def clear(self) -> None:
        self.take()
