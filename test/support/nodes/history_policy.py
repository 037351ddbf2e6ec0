# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that sees three control ticks, and notes what it saw in `seen.jsonl` of its folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from remote_inference.base.policy import Float32Array, PolicyObservation, PolicySpec
from remote_inference.server.manifest.manifest import ModelSource
from support.nodes.rig import FEATURE, JOINTS

OBSERVATION_STEPS = 3
CHUNK_SIZE = 20
SEEN = "seen.jsonl"


class Processors:
    """Sums up what the steps show, so that the chunk depends on all of it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pre(self, observation: PolicyObservation) -> Float32Array:
        grey = [float(image.mean()) for image in observation.image_steps(FEATURE)]
        seen = {"task": observation.task, "states": observation.states.tolist(), "grey": grey}
        with self._file.open("a") as file:
            file.write(json.dumps(seen) + "\n")
        return observation.states.mean(axis=0) + np.float32(1e-6) * np.float32(np.mean(grey))

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model

    def reset(self) -> None:
        """Do nothing: the robot keeps the history."""


class HistoryPolicy:
    """Stays about where the robot was in the last ticks."""

    def __init__(self, source: ModelSource) -> None:
        self._file = Path(source.path) / SEEN
        self.spec = PolicySpec(
            name="history",
            revision="1",
            fingerprint="history-1",
            state_names=JOINTS,
            action_names=JOINTS,
            image_shapes={FEATURE: (48, 64, 3)},
            chunk_size=CHUNK_SIZE,
            trained_fps=30.0,
            observation_steps=OBSERVATION_STEPS,
        )

    def make_processors(self) -> Processors:
        return Processors(self._file)

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        return [np.tile(state, (CHUNK_SIZE, 1)) for state in batch]

    def reset(self) -> None:
        """Do nothing: a chunk depends on its observation alone."""

    def close(self) -> None:
        """Do nothing: there is no device."""
