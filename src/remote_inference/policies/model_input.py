# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The input of a chunk policy's network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.policy import Float32Array


@dataclass(frozen=True)
class ModelInput:
    """One preprocessed observation: uint8 `[3, height, width]` per camera, float32 `[state_dim]`.

    Those of a policy with several observation steps begin with a dimension of the steps, oldest first.

    prefix: model space `[rows, action_dim]`, no rows when the robot's queue is drained. delay_steps: prefix
    rows that will be executed before the chunk arrives. seed: of the noise; temperature: its scale. task: the
    instruction, for policies that read one.
    """

    images: tuple[NDArray[np.uint8], ...]
    state: Float32Array
    prefix: Float32Array
    delay_steps: int = 0
    seed: int = 0
    temperature: float = 1.0
    task: str = ""


def draw_noise(sample: ModelInput, shape: tuple[int, int]) -> Float32Array:
    """Return normal noise that depends on the request's seed and temperature alone."""
    noise: Float32Array = np.random.default_rng(sample.seed).standard_normal(shape, np.float32)
    noise *= sample.temperature
    return noise
