# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What serving a session has cost, by which a scheduler chooses whose turn it is."""

from __future__ import annotations

import threading


class Account:
    """A session's cost as virtual time [ns]: decoding and device time, plus what a pause forfeits.

    One thread chooses sessions by it, and another may charge it meanwhile.
    """

    def __init__(self) -> None:
        self._virtual_ns = 0
        self._lock = threading.Lock()
        self.turn = 0  # rises with each time that the session is chosen; 0: it has never waited

    @property
    def virtual_ns(self) -> int:
        return self._virtual_ns

    def charge(self, cost_ns: int) -> None:
        """Add what one request took, when it has been served."""
        with self._lock:
            self._virtual_ns += max(0, cost_ns)

    def raise_to(self, virtual_ns: int) -> None:
        """Forfeit what is left below `virtual_ns`."""
        with self._lock:
            self._virtual_ns = max(self._virtual_ns, virtual_ns)
