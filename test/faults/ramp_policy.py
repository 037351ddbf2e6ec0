# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that leads the shoulder up from where it is measured, slowly; the elbow stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rig import CONTRACT, FEATURE, JOINTS
from state_processors import StateProcessors

from remote_inference.core.policy import Float32Array, PolicySpec
from remote_inference.core.server.manifest import ModelSource

ROWS = 90
VELOCITY = 0.5  # [rad/s]
WAY = np.outer(np.arange(ROWS) * VELOCITY / CONTRACT["fps"], (1.0, 0.0)).astype(np.float32)


class RampPolicy:
    """Adds the way to the state."""

    def __init__(self, source: ModelSource) -> None:
        self.spec = PolicySpec(
            name="ramp",
            revision="1",
            fingerprint="ramp-1",
            state_names=JOINTS,
            action_names=JOINTS,
            image_shapes={FEATURE: (48, 64, 3)},
            chunk_size=ROWS,
            trained_fps=CONTRACT["fps"],
        )

    def make_processors(self) -> StateProcessors:
        return StateProcessors()

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        return [state[np.newaxis] + WAY for state in batch]

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def close(self) -> None:
        """Do nothing: there is no device."""
