# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A newcomer's first policy: every joint of the arm waves a little about where it is, the gripper stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from remote_inference.base.policy import Float32Array, PolicyObservation, PolicySpec
from remote_inference.server.manifest.manifest import ModelSource

JOINTS = ("base", "shoulder", "elbow", "wrist_1", "wrist_2", "wrist_3", "gripper")
CHUNK_SIZE = 50
FPS = 30.0
AMPLITUDE_RAD = 0.05


class Processors:
    """The state is the policy's input, and robot space is model space."""

    def pre(self, observation: PolicyObservation) -> Float32Array:
        return observation.state

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model

    def reset(self) -> None:
        """Do nothing: nothing is kept between requests."""


class WavePolicy:
    """Answers with one period of a sine about the measured position."""

    def __init__(self) -> None:
        self.spec = PolicySpec(
            name="wave",
            revision="1",
            fingerprint="wave-1",
            state_names=JOINTS,
            action_names=JOINTS,
            image_shapes={"observation.images.wrist": (48, 64, 3)},
            chunk_size=CHUNK_SIZE,
            trained_fps=FPS,
            max_batch=8,
        )
        phase = np.linspace(0.0, 2.0 * np.pi, CHUNK_SIZE, dtype=np.float32)[:, np.newaxis]
        moves = np.array([name != "gripper" for name in JOINTS], np.float32)
        self._wave = AMPLITUDE_RAD * np.sin(phase) * moves

    def make_processors(self) -> Processors:
        return Processors()

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        return [(state + self._wave).astype(np.float32) for state in batch]

    def reset(self) -> None:
        """Do nothing: each chunk depends on its observation alone."""

    def close(self) -> None:
        """Do nothing: there is no device."""


def load(source: ModelSource) -> WavePolicy:
    """Return the policy that a manifest names as `wave_policy:load`; it has no files and needs no device."""
    return WavePolicy()
