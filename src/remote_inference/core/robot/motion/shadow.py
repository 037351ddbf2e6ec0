# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Shadow mode: how far the policy's commands are from what the arm really does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from remote_inference.core.robot.command import Float64Array


@dataclass(frozen=True)
class ShadowError:
    """Differences between would-be commands and measured positions, by joint `[action_dim]`."""

    episode_id: int
    ticks: int
    mean: Float64Array  # of the absolute differences [unit of the action]
    largest: Float64Array


class ShadowComparison:
    """Sums the differences of an episode up. The control thread adds, others read."""

    def __init__(self, action_dim: int) -> None:
        self._nothing = np.zeros(action_dim)
        self.error = ShadowError(0, 0, self._nothing, self._nothing)  # swapped whole

    def add(self, command: Float64Array, measured: Float64Array, episode_id: int) -> None:
        """Compare one tick's would-be command `[action_dim]` with the arm `[action_dim]`."""
        before, difference = self.error, np.abs(command - measured)
        if episode_id != before.episode_id:
            before = ShadowError(episode_id, 0, self._nothing, self._nothing)
        ticks = before.ticks + 1
        self.error = ShadowError(
            episode_id,
            ticks,
            before.mean + (difference - before.mean) / ticks,
            np.maximum(before.largest, difference),
        )
