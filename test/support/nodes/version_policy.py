# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy whose answer is its weights: a chunk of two versions shows as two values in its rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from remote_inference.base.policy import DeviceLostError, Float32Array, PolicyError, PolicySpec
from remote_inference.server.manifest.manifest import ModelSource
from support.nodes.rig import FEATURE, JOINTS
from support.nodes.state_processors import StateProcessors

CHUNK_SIZE, FPS = 80, 30.0  # a chunk lasts 2.7 s: robots play on, whatever a busy machine does
WEIGHTS = 4000  # of which a row shows its share
LIMIT = 1000.0  # a policy with more in it answers no longer
FATAL = 2 * LIMIT  # and with more than this it takes its device along


class VersionPolicy:
    """Row k shows the k-th share of the weights."""

    def __init__(self, source: ModelSource) -> None:
        self._weights = np.zeros(WEIGHTS, np.float32)
        self.spec = PolicySpec(
            name="version",
            revision="1",
            fingerprint="version-1",
            state_names=JOINTS,
            action_names=JOINTS,
            image_shapes={FEATURE: (48, 64, 3)},
            chunk_size=CHUNK_SIZE,
            trained_fps=FPS,
            max_batch=8,
        )

    def weights(self) -> dict[str, Float32Array]:
        return {"weights": self._weights}

    def check_weights(self) -> None:
        if self._weights.max() > FATAL:
            raise DeviceLostError("CUDA error: an illegal memory access was encountered")
        if self._weights.max() > LIMIT:
            raise PolicyError(f"weights: found {self._weights.max():g}, expected at most {LIMIT:g}")

    def make_processors(self) -> StateProcessors:
        return StateProcessors()

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        rows = self._weights.reshape(CHUNK_SIZE, -1)
        return [np.stack([rows.min(1), rows.max(1)], axis=1) for _ in batch]

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def close(self) -> None:
        """Do nothing: there is no device."""
