# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Scripted policies, as manifests name them: `scripted:reach` and `scripted:stay`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from remote_inference.base.policy import Float32Array, PolicyObservation, PolicySpec

STEP_M = 0.05  # way of the gripper with a full action
CHUNK = 5


class ScriptedPolicy:
    """Answers with a function of the state."""

    def __init__(
        self,
        state_names: Sequence[str],
        action_names: Sequence[str],
        trained_fps: float,
        act: Callable[[Float32Array], Float32Array],
        images: dict[str, tuple[int, int, int]],
    ) -> None:
        """act: from a state `[S]` to rows `[CHUNK, A]`."""
        self._act = act
        self.spec = PolicySpec(
            name="scripted",
            revision="1",
            fingerprint="scripted-1",
            state_names=tuple(state_names),
            action_names=tuple(action_names),
            image_shapes=images,
            chunk_size=CHUNK,
            trained_fps=trained_fps,
        )

    def make_processors(self) -> ScriptedPolicy:
        return self

    def pre(self, observation: PolicyObservation) -> Float32Array:
        for name, shape in self.spec.image_shapes.items():
            assert observation.images[name].shape == shape
        return observation.state

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        return [self._act(state) for state in batch]

    def reset(self) -> None:
        """Do nothing: there is no memory."""

    def close(self) -> None:
        """Do nothing: there is no device."""


def reach(source: Any) -> ScriptedPolicy:
    """Return a policy that moves Fetch's gripper straight to the goal."""
    axes = "xyz"

    def act(state: Float32Array) -> Float32Array:
        way, rows = state[3:] - state[:3], np.zeros((CHUNK, 4), np.float32)
        for row in rows:
            row[:3] = np.clip(way / STEP_M, -1, 1)
            way = way - row[:3] * STEP_M
        return rows

    state_names = [f"{what}_{axis}" for what in ("gripper", "goal") for axis in axes]
    return ScriptedPolicy(state_names, [*(f"move_{axis}" for axis in axes), "move_gripper"], 25.0, act, {})


def stay(source: Any) -> ScriptedPolicy:
    """Return a policy that keeps a robot where it is. Options: names, fps and images."""
    options = source.options

    def act(state: Float32Array) -> Float32Array:
        return np.tile(state, (CHUNK, 1))

    images = {name: tuple(shape) for name, shape in options["images"].items()}
    return ScriptedPolicy(options["names"], options["names"], options["fps"], act, images)
