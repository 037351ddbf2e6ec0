# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that leads the shoulder up and down for ever from where it is measured; the elbow stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from remote_inference.base.policy import Float32Array
from remote_inference.server.manifest.manifest import ModelSource
from support.faults.ramp_policy import WAY
from support.nodes.offset_policy import OffsetPolicy
from support.nodes.rig import CONTRACT

FARTHEST = 1.2  # shoulder position beyond which it turns [rad]


class PendulumPolicy(OffsetPolicy):
    """Adds the way to the state, up or down. For one robot."""

    def __init__(self, source: ModelSource) -> None:
        super().__init__("pendulum", WAY, trained_fps=CONTRACT["fps"])
        self._direction = 1.0

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        chunks = []
        for state in batch:
            if abs(state[0]) > FARTHEST:
                self._direction = -np.sign(state[0])
            chunks.append(np.float32(state[np.newaxis] + self._direction * WAY))
        return chunks
