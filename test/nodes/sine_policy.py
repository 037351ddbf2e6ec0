# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy of 10 Hz; its chunk is one round of a wave about the state: appended, chunks have no seam."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rig import FEATURE, JOINTS
from state_processors import StateProcessors

from remote_inference.core.policy import Float32Array, PolicySpec
from remote_inference.core.server.manifest import ModelSource

CHUNK_SIZE = 20
AMPLITUDE = 0.3  # rad
ROUND = (AMPLITUDE * np.sin(2.0 * np.pi * np.arange(CHUNK_SIZE) / CHUNK_SIZE)).astype(np.float32)


class WavePolicy:
    """Adds the wave to the state."""

    def __init__(self, source: ModelSource) -> None:
        self.spec = PolicySpec(
            name="wave",
            revision="1",
            fingerprint="wave-1",
            state_names=JOINTS,
            action_names=JOINTS,
            image_shapes={FEATURE: (48, 64, 3)},
            chunk_size=CHUNK_SIZE,
            trained_fps=10.0,
        )

    def make_processors(self) -> StateProcessors:
        return StateProcessors()

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        return [state[np.newaxis] + ROUND[:, np.newaxis] for state in batch]

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def close(self) -> None:
        """Do nothing: there is no device."""
