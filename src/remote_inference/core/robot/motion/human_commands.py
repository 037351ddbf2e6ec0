# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A person's commands during a takeover: the newest one, while it is young."""

from __future__ import annotations

from remote_inference.core.robot.command import Float64Array
from remote_inference.core.robot.turn import Turn


class HumanCommands:
    """One thread deposits, the control thread reads: the newest command is swapped whole."""

    def __init__(self, silent_s: float, turn: Turn | None = None) -> None:
        """silent_s: a command is not executed for longer than this."""
        self._silent_ns = int(silent_s * 1e9)
        self._turn = turn or Turn()
        self._newest: tuple[Float64Array, int] | None = None

    def deposit(self, action: Float64Array, now_ns: int) -> None:
        """Take a command `[action_dim]` and the monotonic time of its arrival [ns]."""
        with self._turn:
            self._newest = (action, now_ns)

    def newest(self, now_ns: int, since_ns: int) -> Float64Array | None:
        """Return the command `[action_dim]` to execute now, None when the topic is silent.

        since_ns: monotonic time [ns] from which on commands count; those from before were for another moment.
        """
        with self._turn:
            newest = self._newest
        if newest is None or newest[1] < since_ns or now_ns - newest[1] > self._silent_ns:
            return None
        return newest[0]
