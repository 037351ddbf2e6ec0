# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that says one goal in each row, of joints and a camera that its manifest names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from remote_inference.base.policy import Float32Array, PolicySpec
from remote_inference.server.manifest.manifest import ModelSource
from support.nodes.state_processors import StateProcessors

CHUNK_SIZE = 30


class GoalPolicy:
    """Options: `goal`, by name in the order of the state; `unit`, of all; `camera`, a feature of 640x480."""

    def __init__(self, source: ModelSource) -> None:
        goal, unit = source.options["goal"], str(source.options["unit"])
        assert isinstance(goal, dict)
        self._goal = np.array(list(goal.values()), np.float32)
        self.spec = PolicySpec(
            name="goal",
            revision="1",
            fingerprint="goal-1",
            state_names=tuple(goal),
            action_names=tuple(goal),
            image_shapes={str(source.options["camera"]): (480, 640, 3)},
            chunk_size=CHUNK_SIZE,
            trained_fps=30.0,
            units=dict.fromkeys(goal, unit),
        )

    def make_processors(self) -> StateProcessors:
        return StateProcessors()

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        return [np.tile(self._goal, (CHUNK_SIZE, 1)) for _ in batch]

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def close(self) -> None:
        """Do nothing: there is no device."""
