# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The processors around a chunk network: robot's observation in, robot's joint targets out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.policy import Float32Array, PastStep, PolicyError, PolicyObservation
from remote_inference.policies.box_resize import box_resize, crop_resize, letterbox_resize
from remote_inference.policies.model_input import ModelInput
from remote_inference.policies.trained_policy import ImageResize, TrainedPolicy

_RESIZES: Mapping[ImageResize, Callable[[NDArray[np.uint8], int, int], NDArray[np.uint8]]] = {
    "stretch": box_resize,
    "letterbox": letterbox_resize,
    "crop": crop_resize,
}


class ChunkProcessors:
    """Resizes images before inference and unnormalises actions after it; keeps no state between requests."""

    def __init__(
        self,
        config: TrainedPolicy,
        action_mean: Float32Array,
        action_std: Float32Array,
        observation_steps: int = 1,
    ) -> None:
        """observation_steps: control ticks that the policy sees, the present one among them."""
        self._config = config
        self._action_mean = action_mean
        self._action_std = action_std
        self._observation_steps = observation_steps

    def pre(self, observation: PolicyObservation) -> ModelInput:
        state, images = self._read_steps(observation)
        prefix = read_prefix(observation.prefix_model, len(self._config.action_names))
        return ModelInput(
            images,
            state,
            prefix,
            observation.inference_delay_steps,
            observation.seed,
            observation.temperature,
            observation.task,
        )

    def _read_steps(
        self, observation: PolicyObservation
    ) -> tuple[Float32Array, tuple[NDArray[np.uint8], ...]]:
        """Return state and images, stacked where the policy sees several steps."""
        before = self._observation_steps - 1
        if (found := len(observation.past)) != before:
            raise PolicyError(f"past: found {found} control ticks, expected {before}")
        steps: list[PastStep | PolicyObservation] = [*observation.past, observation]
        seen = [self._read_step(step) for step in steps]
        if not before:
            return seen[0]
        states, images = zip(*seen, strict=True)
        return np.stack(states), tuple(np.stack(camera) for camera in zip(*images, strict=True))

    def _read_step(
        self, step: PastStep | PolicyObservation
    ) -> tuple[Float32Array, tuple[NDArray[np.uint8], ...]]:
        state = read_state(step.state, len(self._config.state_names))
        images = tuple(
            read_image(step.images, feature, height, width, self._config.image_resize)
            for feature, (height, width, _) in self._config.image_features.items()
        )
        return state, images

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model * self._action_std + self._action_mean

    def reset(self) -> None:
        """Do nothing: there is no state."""


def read_state(values: Any, state_dim: int) -> Float32Array:
    """Return a state `[state_dim]`. Raises PolicyError for another shape and for non-finite values."""
    state = np.asarray(values, np.float32)
    if state.shape != (state_dim,):
        raise PolicyError(f"state: expected shape ({state_dim},), found {state.shape}")
    if not np.isfinite(state).all():
        raise PolicyError(f"state: expected finite values, found {state.tolist()}")
    return state


def read_prefix(rows: Float32Array | None, action_dim: int, name: str = "prefix_model") -> Float32Array:
    """Return a prefix `[rows, action_dim]`, without rows for None.

    Raises PolicyError for another shape and for non-finite values.
    """
    if rows is None:
        return np.empty((0, action_dim), np.float32)
    if rows.ndim != 2 or rows.shape[1] != action_dim:
        raise PolicyError(f"{name}: expected shape [rows, {action_dim}], found {list(rows.shape)}")
    if not np.isfinite(rows).all():
        raise PolicyError(f"{name}: found non-finite values, expected finite ones")
    return rows


def read_image(
    images: Mapping[str, NDArray[Any]], feature: str, height: int, width: int, resize: ImageResize = "stretch"
) -> NDArray[np.uint8]:
    """Return one camera's RGB image, resampled to `[3, height, width]`.

    Raises PolicyError when the image is missing or is no RGB image.
    """
    image = images.get(feature)
    if image is None:
        raise PolicyError(f"{feature}: missing; found {sorted(images)}")
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
        raise PolicyError(f"{feature}: expected uint8 [height, width, 3], found {image.dtype} {image.shape}")
    return _RESIZES[resize](image, height, width)
