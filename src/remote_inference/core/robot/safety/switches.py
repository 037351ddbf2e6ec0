# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Switches among the actions: closed or opened by a number, with two thresholds, and not too often."""

from __future__ import annotations

import math

import numpy as np

from remote_inference.core.contract.actions import Actions
from remote_inference.core.robot.action_masks import ActionMasks
from remote_inference.core.robot.command import BoolArray, Float64Array


class SwitchRule:
    """Says for each switch whether a number closes it, opens it or leaves it; other actions pass as they are.

    A switch is commanded its `min` (open) or its `max` (closed), and nothing else.
    """

    def __init__(self, actions: Actions, masks: ActionMasks) -> None:
        limits = [actions.limit_of(name) for name in actions.names]
        self.places = masks.is_switch
        self.exist = bool(self.places.any())
        self._open = np.array([limit.min for limit in limits])
        self._closed = np.array([limit.max for limit in limits])
        self._closes = np.array(
            [math.inf if one.closes_above is None else one.closes_above for one in limits]
        )
        self._opens = np.array([-math.inf if one.opens_below is None else one.opens_below for one in limits])
        # Before its first command a switch goes to the nearer side: to command nothing is no choice.
        halves = [(one.closes_above or 0.0) + (one.opens_below or 0.0) for one in limits]
        self._middle = 0.5 * np.array(halves)

    def decide(
        self, action: Float64Array, last: Float64Array | None, settling: BoolArray | None
    ) -> tuple[Float64Array, bool]:
        """Return the action `[action_dim]` with its switches closed or opened, and whether a change waits.

        last: the last command, NaN for switches without one. settling: mask of those that must not change.
        """
        nearer = np.where(action >= self._middle, self._closed, self._open)
        stays = nearer if last is None else np.where(np.isfinite(last), last, nearer)
        wanted = np.where(
            action > self._closes, self._closed, np.where(action < self._opens, self._open, stays)
        )
        waits = np.zeros_like(self.places) if settling is None else settling & (wanted != stays)
        wanted = np.where(waits & self.places, stays, wanted)
        return np.where(self.places, wanted, action), bool((waits & self.places).any())
