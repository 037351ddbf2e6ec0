# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the server asks of a policy: a specification, per-session processors and one batched call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from remote_inference.errors import UserError

Float32Array = NDArray[np.float32]


class PolicyError(UserError):
    """A policy cannot be loaded, or cannot answer; the message names the file or the feature."""


class DeviceError(PolicyError):
    """The device cannot be used on this machine; elsewhere the policy may be served."""


class DeviceLostError(PolicyError):
    """The device answers nothing any more in this process; only a new one can use it."""


class ServingMode(str, Enum):
    """How many sessions may use one policy instance."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


@dataclass(frozen=True)
class PolicySpec:
    """What a policy expects and produces; robots are admitted against it.

    `image_shapes` maps each image feature to its training `(height, width, channels)`. `fingerprint` is a
    hash over weights and processors: equal fingerprints give equal chunks for equal observations.
    """

    name: str
    revision: str
    fingerprint: str
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    image_shapes: Mapping[str, tuple[int, int, int]]
    chunk_size: int
    trained_fps: float
    supports_rtc: bool = False
    serving_mode: ServingMode = ServingMode.SHARED
    max_batch: int = 1

    @property
    def action_dim(self) -> int:
        return len(self.action_names)


def predict_all(policy: Policy, batch: Sequence[Any]) -> Sequence[Float32Array]:
    """Return `policy.predict(batch)`. Raises what that raises, and PolicyError for too few or many chunks."""
    chunks = policy.predict(batch)
    if len(chunks) != len(batch):
        raise PolicyError(f"policy returned {len(chunks)} chunks, expected {len(batch)}")
    return chunks


def find_chunk_problem(spec: PolicySpec, chunk_model: Float32Array, chunk_robot: Float32Array) -> str:
    """Return what is wrong with a policy's answer, or an empty string."""
    expected = (spec.chunk_size, spec.action_dim)
    for space, rows in (("model", chunk_model), ("robot", chunk_robot)):
        if not isinstance(rows, np.ndarray) or rows.shape != expected:
            found = f"{type(rows).__name__} of shape {list(np.shape(rows))}"
            return f"chunk_{space}: found {found}, expected ndarray of shape {list(expected)}"
        with np.errstate(over="ignore"):
            travelling = rows.astype(np.float32, copy=False)
        if not np.isfinite(travelling).all():
            return f"chunk_{space}: found non-finite values, expected finite float32 ones"
    return ""


@dataclass(frozen=True)
class PolicyObservation:
    """One decoded request.

    state: float32 `[state_dim]`, contract order. images: uint8 RGB `[height, width, 3]` (or uint16
    `[height, width]` for depth) by feature, at the camera's own resolution. prefixes: float32
    `[rows, action_dim]`, row k for the k-th control tick after capture like those of the chunk asked for, or
    None when the robot's queue is drained. inference_delay_steps: rows of it that will be executed, or were,
    when the chunk arrives.
    """

    state: Float32Array
    images: Mapping[str, NDArray[Any]]
    task: str
    inference_delay_steps: int = 0
    prefix_model: Float32Array | None = None
    prefix_robot: Float32Array | None = None


class Processors(Protocol):
    """The linked pre/post pair of one session; `post` may read what `pre` cached in the same request."""

    def pre(self, observation: PolicyObservation) -> Any:
        """Turn a robot's observation into the policy's input, opaque to the server.

        Raises PolicyError when a feature is missing or has the wrong shape.
        """

    def post(self, chunk_model: Float32Array) -> Float32Array:
        """Turn a model-space chunk `[chunk_size, action_dim]` into robot space, same shape."""

    def reset(self) -> None:
        """Forget everything of the episode that ended."""


class Policy(Protocol):
    """A loaded policy. One thread loads and calls it, but for `make_processors`, which any may call."""

    spec: PolicySpec

    def make_processors(self) -> Processors:
        """Return a fresh processor pair for one session."""

    def predict(self, batch: Sequence[Any]) -> Sequence[Float32Array]:
        """Return one model-space chunk `[chunk_size, action_dim]` per input, in order.

        `len(batch)` is at most `spec.max_batch`; a policy that cannot batch says 1 there. Inputs have one
        shape, whatever the robots' cameras are: that is the processors' part. A chunk does not depend on what
        else is in the batch. Raises PolicyError when it cannot answer, DeviceLostError when it never will.
        """

    def reset(self) -> None:
        """Forget the episode: between those of an exclusive policy's session, and while warming up."""

    def close(self) -> None:
        """Free the device."""
