# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An environment without physics and the policy that opens it: for episodes and groups of rollouts."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.policy import Float32Array, PolicyObservation, PolicySpec
from remote_inference.learn.environment import (
    ActionSpec,
    EnvError,
    EnvironmentObservation,
    EnvironmentSpec,
    Feature,
    FeatureKind,
    Metrics,
    Step,
    check_action,
)

STATE, FRONT = "observation.state", "observation.images.front"
OPEN, STUCK = 0.9, -0.75  # positions of `pull`
CHUNK = 5
LIMIT_STEPS = 40


class Drawer:
    """`pull` opens it; `turn` does nothing. The seed is where it begins, in hundredths.

    step_s: sleeps in each step, as a simulator computes. broken_after: steps until it raises.
    """

    def __init__(self, step_s: float = 0.0, broken_after: int | None = None) -> None:
        self.spec = EnvironmentSpec(
            name="drawer",
            control_rate_hz=10.0,
            actions=ActionSpec("position", ("turn", "pull"), (-1.0, -1.0), (1.0, 1.0), (np.inf, 2.0)),
            state_names=("pull", "turn"),
            features={
                STATE: Feature(FeatureKind.STATE, (2,)),
                FRONT: Feature(FeatureKind.RGB, (4, 6, 3)),
            },
            tasks=("open", "look"),
            episode_limit_s=4.0,
        )
        self._step_s, self._broken_after = step_s, broken_after
        self._wanted: Sequence[str] = ()
        self._pull = self._turn = 0.0
        self._steps = 0

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self.spec.check_task(task)
        self.spec.check_wanted(wanted)
        self._wanted, self._steps = tuple(wanted), 0
        self._pull, self._turn = seed / 100, 0.0
        return self._observe()

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        self._turn, self._pull = (float(value) for value in check_action(self.spec, action))
        time.sleep(self._step_s)
        self._steps += 1
        if self._broken_after is not None and self._steps > self._broken_after:
            raise EnvError("drawer: it is stuck")
        is_open = self._pull >= OPEN
        truncated = not is_open and self._steps >= LIMIT_STEPS
        return Step(self._observe(), float(self._pull), is_open, truncated)

    def metrics(self) -> Metrics:
        return Metrics(self._pull >= OPEN, {"pull": self._pull, "process_id": os.getpid()})

    def render(self) -> NDArray[np.uint8]:
        return np.zeros((4, 6, 3), np.uint8)

    def close(self) -> None:
        pass

    def _observe(self) -> EnvironmentObservation:
        values = {
            STATE: np.array([self._pull, self._turn], np.float32),
            FRONT: np.full((4, 6, 3), int(100 * abs(self._pull)), np.uint8),
        }
        return EnvironmentObservation({name: values[name] for name in self._wanted}, self._steps / 10)


@dataclass
class PullPolicy:
    """Pulls on from where the drawer is, with noise; knows how likely its rows were."""

    step: float = 0.05
    noise: float = 0.02
    version: str = "first"
    max_batch: int = 16
    image_shapes: tuple[str, ...] = (FRONT,)

    def __post_init__(self) -> None:
        self.batches: list[int] = []
        self.observations: list[PolicyObservation] = []
        self.closed = False

    @property
    def spec(self) -> PolicySpec:
        return PolicySpec(
            name="pull",
            revision="",
            fingerprint=self.version,
            state_names=("turn", "pull"),
            action_names=("pull", "turn"),
            image_shapes=dict.fromkeys(self.image_shapes, (4, 6, 3)),
            chunk_size=CHUNK,
            trained_fps=10.0,
            max_batch=self.max_batch,
        )

    def make_processors(self) -> PullPolicy:
        return self

    def pre(self, observation: PolicyObservation) -> PolicyObservation:
        return observation

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model

    def predict(self, batch: Sequence[PolicyObservation]) -> list[Float32Array]:
        return self.predict_with_log_probabilities(batch)[0]

    def predict_with_log_probabilities(
        self, batch: Sequence[PolicyObservation]
    ) -> tuple[list[Float32Array], list[Float32Array]]:
        self.batches.append(len(batch))
        self.observations += batch
        chunks, log_probabilities = [], []
        for observation in batch:
            _, pull = observation.state
            mean = pull + self.step * np.arange(1, CHUNK + 1, dtype=np.float32)
            drawn = np.random.default_rng(observation.seed).standard_normal(CHUNK).astype(np.float32)
            rows = mean + self.noise * observation.temperature * drawn
            chunks.append(np.stack([rows, np.zeros(CHUNK, np.float32)], axis=1))
            log_probabilities.append(-0.5 * drawn**2)
        return chunks, log_probabilities

    def reset(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
