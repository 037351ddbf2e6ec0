# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Success of a policy in the simulator under a given latency, without ROS or a network.

Time is counted in control ticks: the answer to an observation of tick k takes effect at tick
k + ceil(latency / tick).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.policy import Float32Array, Policy, PolicyObservation, Processors
from remote_inference.environments.belt_arm.collect import JPEG_QUALITY, through_jpeg
from remote_inference.environments.belt_arm.scene import (
    BELT_SPEED_M_S,
    CONTROL_HZ,
    IMAGE_FEATURES,
    LIMITS,
    BeltArm,
)
from remote_inference.paths import share_path

SHIPPED_POLICY = share_path("config", "models", "belt_arm")
SHIPPED_FLOW_POLICY = share_path("config", "models", "belt_arm_flow")
REQUEST_EVERY_TICKS = 10
EPISODE_LIMIT_S = 5.0

_MAX_STEP = np.array(LIMITS.max_velocity) / CONTROL_HZ
_REVOLUTE = slice(0, 5)  # the joints that are measured in radians


_Row = tuple[Float32Array, Float32Array]  # model space, robot space


class Place(Enum):
    """Where a row stands to the one executed before it."""

    SEAM = "first of a chunk"
    WITHIN = "same chunk"


class Strategy(str, Enum):
    """What happens to a chunk that took a while to arrive."""

    RTC = "rtc"
    """As TRIM; the request carries the rows still to execute, and the policy continues them."""
    TRIM = "trim"
    """Requests overlap motion; rows for ticks in which the arm moved meanwhile are dropped."""
    NO_TRIM = "no_trim"
    """Requests overlap motion; the chunk replaces the queue from its first row."""
    BLOCKING = "blocking"
    """The arm stops to ask, then executes `REQUEST_EVERY_TICKS` rows."""


@dataclass(frozen=True)
class Steps:
    """The largest joint step [rad] from one command asked for to the next: over many ticks, nan over none."""

    mean: float
    max: float

    @classmethod
    def of(cls, steps: Sequence[float]) -> Steps:
        return cls(float(np.mean(steps)), max(steps)) if steps else cls(math.nan, math.nan)


@dataclass(frozen=True)
class Evaluation:
    """Outcome over all episodes.

    mean_time_s: until the cube is lifted, over successes; nan without one. max_step: largest change of
    command asked for in one tick `[6]`, before the velocity limit. limited_share: share of ticks in which the
    limit acted. at_seams: where a new chunk begins. within_chunks: everywhere else.
    """

    episodes: int
    successes: int
    mean_time_s: float
    max_step: NDArray[np.float64]
    limited_share: float
    at_seams: Steps
    within_chunks: Steps

    @property
    def success_rate(self) -> float:
        return self.successes / self.episodes


def evaluate(
    policy: Policy,
    seeds: Iterable[int],
    *,
    latency_s: float = 0.0,
    strategy: Strategy = Strategy.TRIM,
    belt_speed_m_s: float = BELT_SPEED_M_S,
    cameras_black: bool = False,
    jpeg_quality: int | None = JPEG_QUALITY,
) -> Evaluation:
    """Run one episode per seed under the velocity limit of `LIMITS`; `jpeg_quality` None sends raw pixels."""
    arm = BeltArm(belt_speed_m_s=belt_speed_m_s, render=not cameras_black)
    observer = _Observer(arm, policy, jpeg_quality, cameras_black)
    latency_ticks = math.ceil(latency_s * CONTROL_HZ - 1e-9)
    times_s: list[float] = []
    at_seams: list[float] = []
    within_chunks: list[float] = []
    max_step = np.zeros(len(LIMITS.names))
    episodes = ticks = limited = 0
    try:
        for seed in seeds:
            episodes += 1
            arm.reset(seed)
            observer.reset()
            queue = _Queue(strategy, latency_ticks)
            while arm.sim_time_s < EPISODE_LIMIT_S and not arm.success:
                if queue.wants_request():
                    queue.request(observer.chunk(queue.prefix(), latency_ticks))
                previous = arm.command
                change = queue.pop(otherwise=previous) - previous
                if queue.place is not None:
                    step = float(np.abs(change[_REVOLUTE]).max())
                    (at_seams if queue.place is Place.SEAM else within_chunks).append(step)
                max_step = np.maximum(max_step, np.abs(change))
                arm.step(previous + np.clip(change, -_MAX_STEP, _MAX_STEP))
                ticks += 1
                limited += bool((np.abs(change) > _MAX_STEP + 1e-9).any())
            if arm.success:
                times_s.append(arm.sim_time_s)
    finally:
        arm.close()
    mean_time_s = float(np.mean(times_s)) if times_s else math.nan
    return Evaluation(
        episodes,
        len(times_s),
        mean_time_s,
        max_step,
        limited / max(ticks, 1),
        Steps.of(at_seams),
        Steps.of(within_chunks),
    )


class _Observer:
    """Looks at the arm the way the robot's client does and asks the policy."""

    def __init__(self, arm: BeltArm, policy: Policy, jpeg_quality: int | None, black: bool) -> None:
        self._arm = arm
        self._policy = policy
        self._jpeg_quality = jpeg_quality
        self._black = black
        self._processors: Processors = policy.make_processors()

    def reset(self) -> None:
        self._processors.reset()

    def chunk(self, prefix_model: Float32Array | None, delay_steps: int) -> list[_Row]:
        """Return the policy's chunk for the present."""
        observation = PolicyObservation(
            state=self._arm.joint_positions().astype(np.float32),
            images={feature: self._image(camera) for camera, feature in IMAGE_FEATURES.items()},
            task="",
            inference_delay_steps=delay_steps,
            prefix_model=prefix_model,
        )
        (chunk_model,) = self._policy.predict([self._processors.pre(observation)])
        return list(zip(chunk_model, self._processors.post(chunk_model), strict=True))

    def _image(self, camera: str) -> NDArray[Any]:
        if self._black:
            height, width, channels = self._policy.spec.image_shapes[IMAGE_FEATURES[camera]]
            return np.zeros((height, width, channels), np.uint8)
        image = self._arm.render(camera)
        return image if self._jpeg_quality is None else through_jpeg(image, self._jpeg_quality)


class _Queue:
    """Actions to execute and the one request in flight, on a clock that counts `pop` calls."""

    def __init__(self, strategy: Strategy, latency_ticks: int) -> None:
        self._strategy = strategy
        self._latency_ticks = latency_ticks
        self._rows: list[_Row] = []
        self._pending: list[_Row] | None = None
        self._ticks_since_request = REQUEST_EVERY_TICKS
        self._executed_since_request = 0
        self._executed = 0
        self.place: Place | None = None  # of the row popped last; None for the very first and for no row

    def wants_request(self) -> bool:
        if self._pending is not None:
            return False
        if self._strategy is Strategy.BLOCKING:
            return not self._rows
        return self._ticks_since_request >= REQUEST_EVERY_TICKS or not self._rows

    def prefix(self) -> Float32Array | None:
        """Return the model-space rows `[rows, 6]` to continue, None where the strategy does not."""
        if self._strategy is not Strategy.RTC or not self._rows:
            return None
        return np.stack([model for model, _ in self._rows])

    def request(self, answer: list[_Row]) -> None:
        """Send a request now whose `answer` arrives after the latency."""
        self._pending = answer
        self._ticks_since_request = self._executed_since_request = 0

    def pop(self, otherwise: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the action `[6]` of this tick, or `otherwise` when the queue is empty."""
        merged = self._pending is not None and self._ticks_since_request >= self._latency_ticks
        if self._pending is not None and merged:
            self._merge(self._pending)
            self._pending = None
        self._ticks_since_request += 1
        self.place = None
        if not self._rows:
            return otherwise
        if self._executed:
            self.place = Place.SEAM if merged else Place.WITHIN
        self._executed += 1
        self._executed_since_request += 1
        return self._rows.pop(0)[1].astype(np.float64)

    def _merge(self, chunk: list[_Row]) -> None:
        if self._strategy in {Strategy.TRIM, Strategy.RTC}:
            self._rows = chunk[min(self._latency_ticks, self._executed_since_request) :]
        elif self._strategy is Strategy.NO_TRIM:
            self._rows = chunk
        else:
            self._rows = chunk[:REQUEST_EVERY_TICKS]
