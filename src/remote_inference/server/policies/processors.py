# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The processors around a chunk network: robot's observation in, robot's joint targets out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.policy import Float32Array, PastStep, PolicyError, PolicyObservation
from remote_inference.server.policies.trained_policy import ImageResize, ModelInput, TrainedPolicy


def box_resize(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return RGB `[h, w, 3]` resampled to channels-first `[3, height, width]`.

    Every output pixel is the mean of its area in the input; a border pixel counts by its part in the area.
    """
    image_height, image_width, channels = image.shape
    if (image_height, image_width) == (height, width):
        return np.ascontiguousarray(image.transpose(2, 0, 1))
    # The weights repeat gcd(size in, size out) times along an axis, so a small product per repeat suffices.
    row_repeats, column_repeats = math.gcd(image_height, height), math.gcd(image_width, width)
    pixels = image.astype(np.float32).reshape(
        row_repeats, image_height // row_repeats, image_width * channels
    )
    rows = _area_weights(image_height // row_repeats, height // row_repeats) @ pixels
    planes = np.ascontiguousarray(rows.reshape(height, image_width, channels).transpose(2, 0, 1))
    column_weights = _area_weights(image_width // column_repeats, width // column_repeats)
    resized = planes.reshape(-1, image_width // column_repeats) @ column_weights.T
    rounded: NDArray[np.uint8] = (resized + 0.5).astype(np.uint8)
    return rounded.reshape(channels, height, width)


def letterbox_resize(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return RGB `[h, w, 3]` as `[3, height, width]` with its own proportions, in the middle of black."""
    image_height, image_width, channels = image.shape
    scale = min(height / image_height, width / image_width)
    inner_height, inner_width = (
        max(1, min(room, round(scale * side)))
        for room, side in ((height, image_height), (width, image_width))
    )
    boxed = np.zeros((channels, height, width), np.uint8)
    top, left = (height - inner_height) // 2, (width - inner_width) // 2
    inner = box_resize(image, inner_height, inner_width)
    boxed[:, top : top + inner_height, left : left + inner_width] = inner
    return boxed


def crop_resize(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return RGB `[h, w, 3]` as `[3, height, width]`: the largest middle part of these proportions."""
    image_height, image_width, _ = image.shape
    scale = min(image_height / height, image_width / width)
    inner_height, inner_width = (
        max(1, min(side, round(scale * size)))
        for side, size in ((image_height, height), (image_width, width))
    )
    top, left = (image_height - inner_height) // 2, (image_width - inner_width) // 2
    return box_resize(image[top : top + inner_height, left : left + inner_width], height, width)


@lru_cache(maxsize=64)
def _area_weights(size_in: int, size_out: int) -> NDArray[np.float32]:
    """Return the weights `[size_out, size_in]` of input pixels in output pixels; every row sums to 1."""
    edges = np.arange(size_out + 1) * (size_in / size_out)
    pixel = np.arange(size_in)
    covered = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    weights: NDArray[np.float32] = (np.clip(covered, 0.0, None) * (size_out / size_in)).astype(np.float32)
    return weights


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
        raise PolicyError(f"state: found shape {list(state.shape)}, expected [{state_dim}]")
    if not np.isfinite(state).all():
        raise PolicyError(f"state: found {state.tolist()}, expected finite values")
    return state


def read_prefix(prefix: Float32Array | None, action_dim: int, name: str = "prefix_model") -> Float32Array:
    """Return a prefix `[actions, action_dim]`, an empty one for None.

    Raises PolicyError for another shape and for non-finite values.
    """
    if prefix is None:
        return np.empty((0, action_dim), np.float32)
    if prefix.ndim != 2 or prefix.shape[1] != action_dim:
        raise PolicyError(f"{name}: found shape {list(prefix.shape)}, expected [actions, {action_dim}]")
    if not np.isfinite(prefix).all():
        raise PolicyError(f"{name}: found non-finite values, expected finite ones")
    return prefix


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
        found = f"{image.dtype} of shape {list(image.shape)}"
        raise PolicyError(f"{feature}: found {found}, expected uint8 of shape [height, width, 3]")
    return _RESIZES[resize](image, height, width)
