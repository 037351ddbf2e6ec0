# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What all trained policies share, whatever their file: names, shapes, control rate, and network inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from remote_inference.base.documents.document import Document
from remote_inference.base.policy import Float32Array, PolicyError, PolicySpec


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
    revision: Annotated[
        str, Field(min_length=1, description="version, as `model.revision` of a manifest may ask for it")
    ]
    state_names: Annotated[Names, Field(description="state that it was trained with, in this order")]
    action_names: Annotated[Names, Field(description="columns of a chunk, in this order")]
    image_features: Annotated[
        Mapping[str, ImageShape],
        Field(description="cameras by feature: height, width and 3 channels of the training [px]"),
    ] = {}
    image_resize: Annotated[
        ImageResize,
        Field(
            description="how the training brought images to their size; letterbox: the image keeps its "
            "proportions, in the middle of black; crop: what sticks out of the trained proportions is cut "
            "off on both sides"
        ),
    ] = "stretch"
    chunk_size: Annotated[Positive, Field(description="rows of a chunk")]
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
