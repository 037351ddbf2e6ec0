# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy whose chunk is the state and the same offsets each time: the motions of several tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from remote_inference.base.policy import Float32Array, PolicySpec
from support.nodes.rig import FEATURE, JOINTS
from support.nodes.state_processors import StateProcessors


class OffsetPolicy:
    """Adds the offsets to the state."""

    def __init__(self, name: str, offsets: Float32Array, trained_fps: float) -> None:
        """offsets: `[rows, 1]` or `[rows, joints]`, in the unit of the joints."""
        self._offsets = offsets
        self.spec = PolicySpec(
            name=name,
            revision="1",
            fingerprint=f"{name}-1",
            state_names=JOINTS,
            action_names=JOINTS,
            image_shapes={FEATURE: (48, 64, 3)},
            chunk_size=len(offsets),
            trained_fps=trained_fps,
        )

    def make_processors(self) -> StateProcessors:
        return StateProcessors()

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        return [state[np.newaxis] + self._offsets for state in batch]

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def close(self) -> None:
        """Do nothing: there is no device."""
