# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that opens the drawer; its chunks depend on all that a request shows, and on those before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from remote_inference.base.policy import Continuation, Float32Array, PolicyObservation, PolicySpec
from remote_inference.server.manifest.manifest import ModelSource
from support.environments.drawer import CHUNK, FRONT

NAMES = ("turn", "pull")
SCALE = np.float32(0.5)  # of robot space by model space


class Processors:
    """Remembers how many requests of the episode came before."""

    def __init__(self) -> None:
        self._requests = 0

    def pre(self, observation: PolicyObservation) -> Float32Array:
        self._requests += 1
        prefix = 0.0 if observation.prefix_model is None else float(observation.prefix_model[-1].sum())
        seen = [float(image.mean()) for image in observation.image_steps(FRONT)]
        told = 0.03 + 1e-3 * self._requests + 1e-4 * prefix + 1e-4 * observation.inference_delay_steps
        told += 1e-6 * sum(seen) + 1e-5 * len(observation.task)
        rise: Float32Array = told * np.arange(1, CHUNK + 1, dtype=np.float32)
        return observation.states.mean(axis=0)[1] + rise

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model * SCALE

    def reset(self) -> None:
        self._requests = 0


class RememberingPolicy:
    """Pulls on from where the drawer is."""

    def __init__(self, source: ModelSource) -> None:
        self.spec = PolicySpec(
            name="remembering",
            revision="1",
            fingerprint=str(source.options.get("fingerprint", "remembering-1")),
            state_names=NAMES,
            action_names=NAMES,
            image_shapes={FRONT: (4, 6, 3)},
            chunk_size=CHUNK,
            trained_fps=10.0,
            continuation=Continuation.TRAINED,
            observation_steps=int(source.options.get("observation_steps", 2)),
        )

    def make_processors(self) -> Processors:
        return Processors()

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        return [np.stack([np.zeros_like(rows), rows], axis=1) / SCALE for rows in batch]

    def reset(self) -> None:
        """Do nothing: the processors remember."""

    def weights(self) -> dict[str, torch.Tensor]:
        return {"scale": torch.tensor(float(SCALE))}  # for servers that let trainers send others

    def check_weights(self) -> None:
        """Do nothing: any scale is a good one."""

    def close(self) -> None:
        """Do nothing: there is no device."""
