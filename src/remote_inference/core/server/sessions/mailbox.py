# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One slot per session, which holds the newest request and counts the requests it replaces."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Letter:
    """A serialized request and its arrival on the server's monotonic clock [ns]."""

    data: bytes
    arrival_ns: int
    superseded: int  # requests replaced since the last one served
    waiting_since_ns: int  # arrival of the first replaced request, or of this one


class Mailbox:
    """A slot for the newest request. Requests stay undecoded, so a superseded one costs nothing."""

    def __init__(self) -> None:
        self._letter: Letter | None = None
        self._lock = threading.Lock()

    def put(self, data: bytes, arrival_ns: int) -> None:
        with self._lock:
            superseded, waiting_since_ns = 0, arrival_ns
            if self._letter is not None:
                superseded, waiting_since_ns = self._letter.superseded + 1, self._letter.waiting_since_ns
            self._letter = Letter(data, arrival_ns, superseded, waiting_since_ns)

    def take(self) -> Letter | None:
        with self._lock:
            letter, self._letter = self._letter, None
            return letter

    @property
    def waiting_since_ns(self) -> int | None:
        """Arrival of the first request since the last `take` [ns], None when the slot is empty."""
        letter = self._letter
        return None if letter is None else letter.waiting_since_ns

    @property
    def arrival_ns(self) -> int | None:
        """Arrival of the waiting request [ns], None when the slot is empty."""
        letter = self._letter
        return None if letter is None else letter.arrival_ns
