# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The way home of a robot that gives up: from where it was commanded last to the contract's home."""

from __future__ import annotations

import numpy as np

from remote_inference.core.contract.sections import Actions, Home
from remote_inference.core.robot.command import Float64Array


class Homing:
    """Targets along a minimum-jerk path (Flash and Hogan 1985); the guard bounds the steps between them."""

    def __init__(
        self,
        start: Float64Array,
        home: Home,
        begin_ns: int,
        is_position: np.ndarray | None = None,
        is_switch: np.ndarray | None = None,
    ) -> None:
        """start: `[action_dim]`. is_position: mask of what goes home, others are zero; None: all.

        is_switch: mask of what stays as it is; None: nothing.
        """
        moves = np.ones(len(start), bool) if is_position is None else is_position
        stays = np.zeros(len(start), bool) if is_switch is None else is_switch
        self._start = np.where(moves | stays, start, 0.0)
        self._goal = np.where(stays, start, 0.0)
        self._goal[moves] = home.positions
        self._begin_ns = begin_ns
        self._duration_ns = home.duration_s * 1e9

    def target(self, now_ns: int) -> Float64Array:
        """Return the point of the path `[action_dim]` at an instant."""
        s = min(1.0, max(0.0, (now_ns - self._begin_ns) / self._duration_ns))
        progress = s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
        return self._start + progress * (self._goal - self._start)

    @staticmethod
    def longest_s(home: Home, actions: Actions) -> float:
        """Return the time [s] that the way takes from anywhere within the limits."""
        limits = [actions.limits[name] for name in actions.positions]
        return max(home.duration_s, *((limit.max - limit.min) / limit.fastest for limit in limits))

    def reached(self, command: Float64Array) -> bool:
        """Return whether a command is home. The guard may have made the way longer than planned."""
        return bool(np.allclose(command, self._goal, rtol=0.0, atol=1e-6))
