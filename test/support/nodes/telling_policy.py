# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy whose chunk depends on everything that a request shows and asks, and on chance by its seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from remote_inference.base.policy import Continuation, Float32Array, PolicyObservation, PolicySpec
from remote_inference.server.manifest.manifest import ModelSource
from support.nodes.rig import FEATURE, JOINTS

OBSERVATION_STEPS = 2
CHUNK_SIZE = 40
SCALE = np.float32(0.5)  # of robot space by model space


class Processors:
    """Sums up an observation; remembers how many requests of the episode came before."""

    def __init__(self) -> None:
        self._requests = 0

    def pre(self, observation: PolicyObservation) -> tuple[Float32Array, int]:
        self._requests += 1
        prefix = 0.0 if observation.prefix_model is None else float(observation.prefix_model[-1].sum())
        told = [
            0.01 * len(observation.task),
            0.01 * observation.inference_delay_steps,
            0.01 * prefix,
            0.001 * self._requests,
            *(1e-5 * float(image.mean()) for image in observation.image_steps(FEATURE)),
        ]
        return observation.states.mean(axis=0) + np.float32(sum(told)), observation.seed

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model * SCALE

    def reset(self) -> None:
        self._requests = 0


class TellingPolicy:
    """Stays about where the robot is, with noise."""

    def __init__(self, source: ModelSource) -> None:
        self.spec = PolicySpec(
            name="telling",
            revision="1",
            fingerprint=str(source.options.get("fingerprint", "telling-1")),
            state_names=JOINTS,
            action_names=JOINTS,
            image_shapes={FEATURE: (48, 64, 3)},
            chunk_size=CHUNK_SIZE,
            trained_fps=30.0,
            continuation=Continuation.TRAINED,
            observation_steps=OBSERVATION_STEPS,
        )

    def make_processors(self) -> Processors:
        return Processors()

    def predict(self, batch: Sequence[Any]) -> list[Float32Array]:
        return [
            state / SCALE + 0.01 * np.random.default_rng(seed).standard_normal((CHUNK_SIZE, 2), np.float32)
            for state, seed in batch
        ]

    def reset(self) -> None:
        """Do nothing: the processors remember."""

    def close(self) -> None:
        """Do nothing: there is no device."""
