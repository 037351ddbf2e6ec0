# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Success of a policy in the simulator under a given latency, without ROS or a network.

The chunks go through the robot's own queue; see `delayed_robot` for the clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belt_arm import expert
from belt_arm.collect import CHUNK_SIZE
from belt_arm.delayed_robot import (
    REQUEST_EVERY_TICKS,
    Chunk,
    DelayedRobot,
    Link,
)
from belt_arm.labelled_episode import JPEG_QUALITY, through_jpeg
from remote_inference.base.fingerprint import make_seed
from remote_inference.base.paths import share_path
from remote_inference.base.policy import Float32Array, Policy, PolicyObservation, Processors
from remote_inference.learn.environments.belt_arm import EPISODE_LIMIT_S
from remote_inference.learn.environments.belt_arm.scene import (
    BELT_SPEED_M_S,
    IMAGE_FEATURES,
    LIMITS,
    MAX_STEP,
    BeltArm,
)
from remote_inference.learn.environments.belt_arm.strategies import TRAINED, TRIM, Strategy
from remote_inference.robot.queue.plan import QueuedAction

SHIPPED_POLICY = share_path("config", "models", "belt_arm")
SHIPPED_FLOW_POLICY = share_path("config", "models", "belt_arm_flow")
SHIPPED_BEGINNER = share_path("config", "models", "belt_arm_beginner")
SHIPPED_PLAIN_POLICY = share_path("config", "models", "belt_arm_plain")
SHIPPED_GUIDANCE_POLICY = share_path("config", "models", "belt_arm_guidance")

_REVOLUTE = slice(0, 5)  # the joints that are measured in radians


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
    jitter_s: float = 0.0,
    hint_error_s: float = 0.0,
    strategy: Strategy = TRIM,
    request_every_ticks: int = REQUEST_EVERY_TICKS,
    belt_speed_m_s: float = BELT_SPEED_M_S,
    cameras_black: bool = False,
    jpeg_quality: int | None = JPEG_QUALITY,
) -> Evaluation:
    """Run one episode per seed under the velocity limit of `LIMITS`; `jpeg_quality` None sends raw pixels.

    latency_s, jitter_s, hint_error_s: of the `Link` between the robot and the policy.
    """
    arm = BeltArm(belt_speed_m_s=belt_speed_m_s, render=not cameras_black)
    observer = _Observer(arm, policy, jpeg_quality, cameras_black)

    def start(seed: int) -> DelayedRobot:
        observer.reset()
        link = Link(latency_s, jitter_s=jitter_s, hint_error_s=hint_error_s, seed=seed)
        return DelayedRobot(strategy, link, observer.chunk, request_every_ticks=request_every_ticks)

    try:
        return _run(arm, seeds, start)
    finally:
        arm.close()


def evaluate_expert(
    seeds: Iterable[int], *, latency_s: float, knows_delay: bool, chunk_size: int = CHUNK_SIZE
) -> Evaluation:
    """Let the expert itself answer, who knows the cube's true position, one episode per seed.

    knows_delay: the plan is for the moment of arrival, after what is executed until then; else it is for the
    present, as in the labels of policies that are trained without delay.
    """
    arm = BeltArm(render=False)

    def ask(_: Float32Array | None, actions: Float32Array | None, delay_steps: int) -> Chunk:
        if knows_delay:
            chunk = expert.continue_prefix(arm, actions, delay_steps, chunk_size)
        else:
            chunk = expert.plan_from(arm, chunk_size)
        return chunk, chunk

    try:
        return _run(arm, seeds, lambda seed: DelayedRobot(TRAINED, Link(latency_s, seed=seed), ask))
    finally:
        arm.close()


def _run(arm: BeltArm, seeds: Iterable[int], start: Callable[[int], DelayedRobot]) -> Evaluation:
    """Run one episode per seed. start: returns the robot of a new episode."""
    times_s: list[float] = []
    at_seams: list[float] = []
    within_chunks: list[float] = []
    max_step = np.zeros(len(LIMITS.names))
    episodes = ticks = limited = 0
    for seed in seeds:
        episodes += 1
        arm.reset(seed)
        robot = start(seed)
        before: QueuedAction | None = None
        while arm.sim_time_s < EPISODE_LIMIT_S and not arm.success:
            previous = arm.command
            action = robot.tick()
            change = (action.robot.astype(np.float64) if action else previous) - previous
            if action and before:
                step = float(np.abs(change[_REVOLUTE]).max())
                (within_chunks if action.source is before.source else at_seams).append(step)
            before = action or before
            max_step = np.maximum(max_step, np.abs(change))
            arm.step(previous + np.clip(change, -MAX_STEP, MAX_STEP))
            ticks += 1
            limited += bool((np.abs(change) > MAX_STEP + 1e-9).any())
        if arm.success:
            times_s.append(arm.sim_time_s)
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
    """Observes the arm the way the robot's client does, and requests the policy's chunks."""

    def __init__(self, arm: BeltArm, policy: Policy, jpeg_quality: int | None, black: bool) -> None:
        self._arm = arm
        self._policy = policy
        self._jpeg_quality = jpeg_quality
        self._black = black
        self._processors: Processors = policy.make_processors()

    def reset(self) -> None:
        self._processors.reset()

    def chunk(
        self, prefix_model: Float32Array | None, prefix_robot: Float32Array | None, delay_steps: int
    ) -> Chunk:
        """Return the policy's chunk for the present."""
        state = self._arm.joint_positions().astype(np.float32)
        images = {feature: self._image(camera) for camera, feature in IMAGE_FEATURES.items()}
        observation = PolicyObservation(
            state=state,
            images=images,
            task="",
            inference_delay_steps=delay_steps,
            prefix_model=prefix_model,
            prefix_robot=prefix_robot,
            seed=make_seed([state, *map(np.ascontiguousarray, images.values())]),
        )
        (chunk_model,) = self._policy.predict([self._processors.pre(observation)])
        return chunk_model, self._processors.post(chunk_model)

    def _image(self, camera: str) -> NDArray[Any]:
        if self._black:
            height, width, channels = self._policy.spec.image_shapes[IMAGE_FEATURES[camera]]
            return np.zeros((height, width, channels), np.uint8)
        image = self._arm.render(camera)
        return image if self._jpeg_quality is None else through_jpeg(image, self._jpeg_quality)
