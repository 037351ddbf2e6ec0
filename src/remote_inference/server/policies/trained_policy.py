# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What all trained policies share, whatever their file: names, shapes, control rate, inputs, processors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from remote_inference.base.documents.document import Document
from remote_inference.base.policy import Float32Array, PastStep, PolicyError, PolicyObservation, PolicySpec


@dataclass(frozen=True)
class ModelInput:
    """One preprocessed observation: uint8 `[3, height, width]` per camera, float32 `[state_dim]`.

    Those of a policy with several observation steps begin with a dimension of the steps, oldest first.

    prefix: model space `[n, action_dim]`, empty when the robot's queue is drained. delay_steps: actions of
    the prefix that will be executed before the chunk arrives. seed: of the noise; temperature: its scale.
    task: the instruction, for policies that read one.
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


def require_batch(batch: Sequence[object], most: int) -> None:
    """Raise PolicyError for a batch without inputs or with more than `most`."""
    if not 0 < len(batch) <= most:
        raise PolicyError(f"batch: expected 1 to {most} inputs, found {len(batch)}")


def prefix_arrays(
    batch: Sequence[ModelInput], max_delay_steps: int
) -> tuple[Float32Array, NDArray[np.int64], NDArray[np.int64]]:
    """Return what a network trained with latency gets: the executed actions, their number, and the delay.

    actions: `[batch, max_delay_steps, action_dim]` in model space, in the order of execution, zeros behind
    the executed ones. executed, delay: `[batch]` control ticks, `executed <= delay`; a longer delay counts as
    `max_delay_steps`.
    """
    delays = [min(sample.delay_steps, max_delay_steps) for sample in batch]
    executed = [min(delay, len(sample.prefix)) for delay, sample in zip(delays, batch, strict=True)]
    actions = np.zeros((len(batch), max_delay_steps, batch[0].prefix.shape[1]), np.float32)
    for row, count, sample in zip(actions, executed, batch, strict=True):
        row[:count] = sample.prefix[:count]
    return actions, np.array(executed, np.int64), np.array(delays, np.int64)


Positive = Annotated[int, Field(ge=1)]
Names = Annotated[tuple[str, ...], Field(min_length=1)]
ImageShape = tuple[Positive, Positive, Literal[3]]  # height, width, channels
ImageResize = Literal["stretch", "letterbox", "crop"]
Fps = Annotated[float, Field(gt=0, allow_inf_nan=False, description="control rate of the training data [Hz]")]
Unit = Annotated[str, Field(min_length=1)]
UNITS = Field(
    description="unit of a state entry or action, by name, as a contract's `scale` or limits call it: "
    "degrees, percent, rad, m; a robot that says another is refused; left out: not known"
)


class TrainedPolicy(Document):
    """Keys that `policy.json` of a chunk network and the description in an ONNX file share."""

    name: Annotated[str, Field(min_length=1, description="name, for logs and status")]
    revision: Annotated[str, Field(min_length=1)]
    """version, as `model.revision` of a manifest may ask for it"""
    state_names: Annotated[Names, Field(description="state that it was trained with, in this order")]
    action_names: Annotated[Names, Field(description="columns of a chunk, in this order")]
    image_features: Mapping[str, ImageShape] = {}
    """cameras by feature: height, width and 3 channels of the training [px]"""
    image_resize: ImageResize = "stretch"
    """how the training brought images to their size; letterbox: the image keeps its proportions, in the
    middle of black; crop: what sticks out of the trained proportions is cut off on both sides"""
    chunk_size: Annotated[Positive, Field(description="actions of a chunk")]
    trained_fps: Fps
    units: Annotated[Mapping[str, Unit], UNITS] = {}

    def make_spec(self, **values: Any) -> PolicySpec:
        """Return the policy's specification, with `values` for what these keys do not say."""
        return PolicySpec(
            name=self.name,
            revision=self.revision,
            state_names=self.state_names,
            action_names=self.action_names,
            image_shapes=self.image_features,
            chunk_size=self.chunk_size,
            trained_fps=self.trained_fps,
            units=self.units,
            **values,
        )


def ranges_of(names: Sequence[str], mean: ArrayLike, std: ArrayLike) -> dict[str, tuple[float, float]]:
    """Return where most of the training data was, by name: two standard deviations about its mean."""
    low, high = np.asarray(mean) - 2.0 * np.asarray(std), np.asarray(mean) + 2.0 * np.asarray(std)
    return {name: (float(one), float(other)) for name, one, other in zip(names, low, high, strict=True)}


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
    boxed = np.zeros((image.shape[2], height, width), np.uint8)
    rows, columns = _find_middle(image.shape[:2], (height, width))
    boxed[:, rows, columns] = box_resize(image, rows.stop - rows.start, columns.stop - columns.start)
    return boxed


def crop_resize(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return RGB `[h, w, 3]` as `[3, height, width]`: the largest middle part of these proportions."""
    return box_resize(image[_find_middle((height, width), image.shape[:2])], height, width)


def _find_middle(proportions: Sequence[int], room: Sequence[int]) -> tuple[slice, slice]:
    """Return the rows and columns of the largest rectangle of these proportions in the middle of a room."""
    scale = min(space / side for side, space in zip(proportions, room, strict=True))
    found = []
    for side, space in zip(proportions, room, strict=True):
        size = max(1, min(space, round(scale * side)))
        begin = (space - size) // 2
        found.append(slice(begin, begin + size))
    return found[0], found[1]


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


@dataclass(frozen=True, eq=False)
class ChunkProcessors:
    """Resizes images before inference and unnormalises actions after it; keeps no state between requests."""

    config: TrainedPolicy
    action_mean: Float32Array
    action_std: Float32Array
    observation_steps: int = 1  # control ticks that the policy sees, the present one among them

    def pre(self, observation: PolicyObservation) -> ModelInput:
        state, images = self._read_steps(observation)
        prefix = read_prefix(observation.prefix_model, len(self.config.action_names))
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
        before = self.observation_steps - 1
        if (found := len(observation.past)) != before:
            raise PolicyError(f"past: found {found} control ticks, expected {before}")
        steps: list[PastStep | PolicyObservation] = [*observation.past, observation]
        states = [read_state(step.state, len(self.config.state_names)) for step in steps]
        cameras = [
            [read_image(step.images, feature, height, width, self.config.image_resize) for step in steps]
            for feature, (height, width, _) in self.config.image_features.items()
        ]
        if not before:
            return states[0], tuple(camera[0] for camera in cameras)
        return np.stack(states), tuple(np.stack(camera) for camera in cameras)

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model * self.action_std + self.action_mean

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
