# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How badly the server is missed: failed requests in a row, and the time without a chunk."""

from __future__ import annotations


class Outage:
    """Counts what loses the session, and measures the time after which the robot gives up."""

    def __init__(self, max_failures: int, max_offline_ns: int) -> None:
        self._max_failures = max_failures
        self._max_offline_ns = max_offline_ns
        self._offline_since_ns: int | None = None
        self.failures = 0  # requests in a row without a chunk in time

    @property
    def loses_session(self) -> bool:
        """True when too many requests have failed in a row."""
        return self.failures >= self._max_failures

    def end(self) -> None:
        """Note a chunk in time: nothing else ends the time offline."""
        self.failures = 0
        self._offline_since_ns = None

    def begin(self, now_ns: int) -> None:
        """Note that the session is lost."""
        if self._offline_since_ns is None:
            self._offline_since_ns = now_ns

    def hold(self, now_ns: int) -> None:
        """Begin the time offline anew: the robot has not missed the server until now."""
        if self._offline_since_ns is not None:
            self._offline_since_ns = now_ns

    def is_too_long(self, now_ns: int) -> bool:
        """Return whether the robot must give up."""
        return self._offline_since_ns is not None and now_ns - self._offline_since_ns >= self._max_offline_ns
