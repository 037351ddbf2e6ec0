"""A policy that moves every joint towards a target pose at a given speed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from remote_inference import (
    Document,
    Float32Array,
    ModelSource,
    PolicyError,
    PolicyObservation,
    PolicySpec,
    load_document,
    make_fingerprint,
)


class ReachOptions(Document):
    """Keys of `model.options` in the manifest."""

    speed_factor: Annotated[float, Field(gt=0, le=1, description="share of the speed to move with")] = 1.0


class ReachConfig(Document):
    """`policy.json`: joints, where to bring them, and how fast [unit/s]."""

    names: tuple[str, ...]
    target: tuple[float, ...]
    speed: tuple[float, ...]
    chunk_size: int
    trained_fps: float


def load(source: ModelSource) -> ReachPolicy:
    """Load the policy of the manifest's section `model`. Raises PolicyError or DocumentError."""
    return ReachPolicy(source, source.read_options(ReachOptions))


class ReachProcessors:
    """The state goes in as it is, and the chunk is already in the robot's units."""

    def pre(self, observation: PolicyObservation) -> Float32Array:
        return np.asarray(observation.state, np.float32)

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model

    def reset(self) -> None:
        """Do nothing: there is no state."""


class ReachPolicy:
    """Moves in a straight line of joint space."""

    def __init__(self, source: ModelSource, options: ReachOptions) -> None:
        file = Path(source.path) / "policy.json"
        config = load_document(file, ReachConfig)
        for key in ("target", "speed"):
            if len(getattr(config, key)) != len(config.names):
                found = len(getattr(config, key))
                raise PolicyError(f"{file}: {key}: found {found} numbers, expected {len(config.names)}")
        self._target = np.array(config.target, np.float32)
        self._step = options.speed_factor * np.array(config.speed, np.float32) / config.trained_fps
        self.spec = PolicySpec(
            name="reach",
            revision="1",
            fingerprint=make_fingerprint([file], source.settings),
            state_names=config.names,
            action_names=config.names,
            image_shapes={},
            chunk_size=config.chunk_size,
            trained_fps=config.trained_fps,
            max_batch=64,
            samples=False,
        )

    def make_processors(self) -> ReachProcessors:
        return ReachProcessors()

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        return [self._chunk(state) for state in batch]

    def reset(self) -> None:
        """Do nothing: every chunk depends on its observation alone."""

    def close(self) -> None:
        """Do nothing: there is no device."""

    def _chunk(self, state: Float32Array) -> Float32Array:
        rows = np.arange(1, self.spec.chunk_size + 1, dtype=np.float32)[:, np.newaxis]
        distance = self._target - state
        return state + np.clip(distance, -rows * self._step, rows * self._step)
