# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The order in which a robot tries its servers, and the pauses between the attempts."""

from __future__ import annotations

import random
from collections.abc import Sequence

JITTER = 0.25  # each pause is drawn from 1 - JITTER to 1 + JITTER times the backoff


class ServerList:
    """The servers in turn. Between rounds over all of them lie pauses, which double, with jitter."""

    def __init__(
        self, servers: Sequence[str], initial_backoff_s: float, max_backoff_s: float, rng: random.Random
    ) -> None:
        self._servers = tuple(servers)
        self._initial_backoff_s = initial_backoff_s
        self._max_backoff_s = max_backoff_s
        self._rng = rng
        self._index = 0
        self._failures = 0

    @property
    def current(self) -> str:
        """The server in use or tried next."""
        return self._servers[self._index]

    def move_on(self) -> None:
        """Take the next server."""
        self._index = (self._index + 1) % len(self._servers)

    def take(self, server: str) -> None:
        """Take a server of the list next."""
        self._index = self._servers.index(server)

    def fail(self) -> int:
        """Take the next server; return the pause before it is tried [ns], 0 until all have failed."""
        self.move_on()
        self._failures += 1
        rounds, rest = divmod(self._failures, len(self._servers))
        return 0 if rest else self._pause_ns(rounds - 1)

    def succeed(self) -> None:
        """Begin the next backoff from its first pause."""
        self._failures = 0

    def _pause_ns(self, failed_rounds: int) -> int:
        pause_s = min(self._initial_backoff_s * 2.0 ** min(failed_rounds, 32), self._max_backoff_s)
        return int(pause_s * self._rng.uniform(1 - JITTER, 1 + JITTER) * 1e9)
