# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that leads the joints to the other side of zero; it speaks radians, or degrees and percent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from remote_inference.base.policy import Continuation, Float32Array, PolicyObservation, PolicySpec
from remote_inference.server.manifest.manifest import ModelSource
from support.nodes.rig import FEATURE, JOINTS

CHUNK_SIZE = 40
WAY = np.array([-0.8, -1.0], np.float32)
# Degrees know zero as radians do. Percent of a range from -1 to 1 rad have it at 50.
ZERO = {"radians": (0.0, 0.0), "degrees_and_percent": (0.0, 50.0)}


class Processors:
    """Takes the mean of what the steps show."""

    def pre(self, observation: PolicyObservation) -> Float32Array:
        mean: Float32Array = observation.states.mean(axis=0)
        return mean

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model

    def reset(self) -> None:
        """Do nothing: there is no state."""


class MirrorPolicy:
    """Says the goal in each row."""

    def __init__(self, source: ModelSource) -> None:
        speaks = str(source.options["speaks"])
        self._zero = np.array(ZERO[speaks], np.float32)
        self.spec = PolicySpec(
            name="mirror",
            revision="1",
            fingerprint=f"mirror-{speaks}",
            state_names=JOINTS,
            action_names=JOINTS,
            image_shapes={FEATURE: (48, 64, 3)},
            chunk_size=CHUNK_SIZE,
            trained_fps=30.0,
            continuation=Continuation.TRAINED,
            observation_steps=2,
        )

    def make_processors(self) -> Processors:
        return Processors()

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        goals = [WAY * (state - self._zero) + self._zero for state in batch]
        return [np.tile(goal, (CHUNK_SIZE, 1)).astype(np.float32) for goal in goals]

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def close(self) -> None:
        """Do nothing: there is no device."""
