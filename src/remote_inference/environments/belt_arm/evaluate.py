# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Success of a policy in the simulator under a given latency, without ROS or a network.

The chunks go through the robot's own queue. Time is counted in control ticks: the answer to an observation of
tick k takes effect at tick k + ceil(latency / tick).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.policy import Float32Array, Policy, PolicyObservation, Processors
from remote_inference.core.robot.action_queue import (
    ActionQueue,
    ChunkSource,
    DelayPolicy,
    MergeMode,
    QueuedAction,
)
from remote_inference.core.robot.config import RobotConfig
from remote_inference.core.seeds import make_seed
from remote_inference.environments.belt_arm import EPISODE_LIMIT_S
from remote_inference.environments.belt_arm.collect import JPEG_QUALITY, through_jpeg
from remote_inference.environments.belt_arm.scene import (
    BELT_SPEED_M_S,
    CONTROL_HZ,
    IMAGE_FEATURES,
    LIMITS,
    BeltArm,
)
from remote_inference.environments.belt_arm.strategies import TRIM, Strategy
from remote_inference.paths import share_path

SHIPPED_POLICY = share_path("config", "models", "belt_arm")
SHIPPED_FLOW_POLICY = share_path("config", "models", "belt_arm_flow")
REQUEST_EVERY_TICKS = 10

_MAX_STEP = np.array(LIMITS.max_velocity) / CONTROL_HZ
_REVOLUTE = slice(0, 5)  # the joints that are measured in radians
_Chunk = tuple[Float32Array, Float32Array]  # model space, robot space: `[horizon, 6]` each


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
    strategy: Strategy = TRIM,
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
            robot = _Robot(strategy, latency_ticks, observer.chunk)
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

    def chunk(self, prefix_model: Float32Array | None, delay_steps: int) -> _Chunk:
        """Return the policy's chunk for the present."""
        state = self._arm.joint_positions().astype(np.float32)
        images = {feature: self._image(camera) for camera, feature in IMAGE_FEATURES.items()}
        observation = PolicyObservation(
            state=state,
            images=images,
            task="",
            inference_delay_steps=delay_steps,
            prefix_model=prefix_model,
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


@dataclass(frozen=True)
class _Answer:
    """A chunk on its way, and what was true when it was asked for."""

    tick: int
    executed: int
    chunk: _Chunk


class _Robot:
    """The robot's queue and its one request in flight, on a clock that counts `tick` calls."""

    def __init__(
        self, strategy: Strategy, latency_ticks: int, ask: Callable[[Float32Array | None, int], _Chunk]
    ) -> None:
        """ask: returns the chunk for the present, of a prefix and a delay [control ticks]."""
        config = RobotConfig.model_validate(strategy.parameters)
        self._queue = ActionQueue(DelayPolicy(config.delay_policy))
        self._merge_mode = MergeMode(config.merge_mode)
        self._horizon = config.execution_horizon or None
        self._blocking = config.request_mode == "blocking"
        self._sends_prefix = strategy.sends_prefix
        self._latency_ticks = latency_ticks
        self._ask = ask
        self._ticks = 0
        self._requests = 0
        self._asked_tick = 0
        self._pending: _Answer | None = None

    def tick(self) -> QueuedAction | None:
        """Return the action of this control tick, None when there is nothing to execute."""
        if self._pending is None and self._wants_request():
            prefix = self._queue.left_over() if self._sends_prefix else None
            chunk = self._ask(prefix, self._latency_ticks)
            self._pending = _Answer(self._ticks, self._queue.executed, chunk)
            self._asked_tick = self._ticks
        if self._pending is not None and self._ticks - self._pending.tick >= self._latency_ticks:
            self._merge(self._pending)
            self._pending = None
        self._ticks += 1
        return self._queue.get()

    def _wants_request(self) -> bool:
        if not len(self._queue):
            return True
        return not self._blocking and self._ticks - self._asked_tick >= REQUEST_EVERY_TICKS

    def _merge(self, answer: _Answer) -> None:
        self._requests += 1
        source = ChunkSource(
            capture_ns=round(answer.tick / CONTROL_HZ * 1e9),
            session_id="",
            seq_id=self._requests,
            episode_id=0,
            policy_version="",
            task="",
        )
        self._queue.merge(
            source,
            *answer.chunk,
            self._merge_mode,
            latency_steps=self._latency_ticks,
            executed_before=answer.executed,
            horizon=self._horizon,
        )
