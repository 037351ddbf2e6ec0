# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Training data of policies that are told what is executed while they answer (training-time RTC).

The expert drives under a latency that is drawn for each episode, disturbed as in `collect`. Each frame gets
several delays, all drawn at random whatever the episode's latency; the label of each is the expert's plan
after the rows that are executed within the delay and any wait without rows, or what another `Label` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.policy import Float32Array
from remote_inference.environments.belt_arm import expert
from remote_inference.environments.belt_arm.collect import (
    POLICY_IMAGE_HEIGHT,
    POLICY_IMAGE_WIDTH,
    Disturbance,
    through_jpeg,
)
from remote_inference.environments.belt_arm.delayed_robot import Chunk, DelayedRobot, Link
from remote_inference.environments.belt_arm.scene import CAMERA_NAMES, CONTROL_HZ, MAX_STEP, BeltArm
from remote_inference.environments.belt_arm.strategies import TRAINED
from remote_inference.policies.box_resize import box_resize

FIRST_SEED = 20_000
MAX_DELAY_TICKS = 36
"""1 s, what the network and the robot add to it, and 100 ms of jitter."""
CHUNK_SIZE = 70
"""As many new rows after the longest delay as the next answer takes, so that the arm need not wait for it."""
DELAYS_PER_FRAME = 4

_LATENCIES_TICKS = 31  # 0 to 30
_JITTER_S = 4 / CONTROL_HZ
_KEPT_FRAMES = 0.5
_EPISODE_TICKS = (60, 150)
_REQUEST_EVERY_TICKS = (1, 13)
_TICKS_AFTER_SUCCESS = 12
_BEND_RAD = 0.06

Images = NDArray[np.uint8]
Encode = Callable[[Images, Float32Array], Float32Array]
"""Returns features `[frames, n]` of uint8 images `[frames, cameras, 3, height, width]` and states."""
Label = Callable[[BeltArm, Float32Array, int, int], Float32Array]
"""Returns a chunk `[horizon, 6]` of the arm, the rows executed meanwhile, the delay [ticks], the horizon."""


@dataclass(frozen=True)
class DelayedDataset:
    """Frames of all episodes, end to end, and the delays of each.

    views: float32 `[frames, n]`, what the encoders see. states: float32 `[frames, 6]`. By delay: frame:
    int64 `[delays]`; rows: float32 `[delays, MAX_DELAY_TICKS, 6]`, executed in this order, robot units;
    executed: int64 `[delays]`, the number of rows that count; ticks: int64 `[delays]`, until the plan begins;
    plans: float32 `[delays, CHUNK_SIZE, 6]`. successes: number of episodes that lifted the cube.
    """

    views: Float32Array
    states: Float32Array
    frame: NDArray[np.int64]
    rows: Float32Array
    executed: NDArray[np.int64]
    ticks: NDArray[np.int64]
    plans: Float32Array
    episodes: int
    successes: int

    @classmethod
    def join(cls, parts: Sequence[DelayedDataset]) -> DelayedDataset:
        """Return the episodes of all parts, of which there is at least one."""
        begins = np.cumsum([0, *(len(part.states) for part in parts[:-1])])
        return cls(
            views=np.concatenate([part.views for part in parts]),
            states=np.concatenate([part.states for part in parts]),
            frame=np.concatenate([part.frame + begin for part, begin in zip(parts, begins, strict=True)]),
            rows=np.concatenate([part.rows for part in parts]),
            executed=np.concatenate([part.executed for part in parts]),
            ticks=np.concatenate([part.ticks for part in parts]),
            plans=np.concatenate([part.plans for part in parts]),
            episodes=sum(part.episodes for part in parts),
            successes=sum(part.successes for part in parts),
        )


def collect_delayed(
    episodes: int,
    encode: Encode,
    progress: Callable[[str], None] = print,
    *,
    label: Label = expert.plan_after,
) -> DelayedDataset:
    """Run episodes with seeds from `FIRST_SEED` on; equal counts, encoders and labels give equal data."""
    parts: list[DelayedDataset] = []
    arm = BeltArm()
    try:
        for episode in range(episodes):
            parts.append(collect_episode(arm, FIRST_SEED + episode, encode, label=label))
            if (episode + 1) % 50 == 0:
                frames = sum(len(part.states) for part in parts)
                lifted = sum(part.successes for part in parts)
                done = f"{episode + 1}/{episodes} episodes with latency"
                progress(f"collect: {done}, {frames} frames, {lifted} lifted")
    finally:
        arm.close()
    return DelayedDataset.join(parts)


def collect_episode(
    arm: BeltArm, seed: int, encode: Encode, *, label: Label = expert.plan_after
) -> DelayedDataset:
    """Return the data of the one episode of a seed."""
    images, frames, lifted = _run_episode(arm, seed, label)
    states = np.stack([frame.state for frame in frames])
    delays = [(index, delay) for index, frame in enumerate(frames) for delay in frame.delays]
    return DelayedDataset(
        views=encode(np.stack(images), states),
        states=states,
        frame=np.array([index for index, _ in delays]),
        rows=np.stack([_padded(delay.rows) for _, delay in delays]),
        executed=np.array([len(delay.rows) for _, delay in delays]),
        ticks=np.array([delay.ticks for _, delay in delays]),
        plans=np.stack([delay.plan for _, delay in delays]),
        episodes=1,
        successes=int(lifted),
    )


@dataclass(frozen=True)
class _Delay:
    ticks: int
    rows: Float32Array  # `[executed, 6]`
    plan: Float32Array


@dataclass(frozen=True)
class _Frame:
    state: Float32Array
    delays: tuple[_Delay, ...]


def _run_episode(arm: BeltArm, seed: int, label: Label) -> tuple[list[Images], list[_Frame], bool]:
    """Return images and frames, and whether the cube was lifted."""
    rng = np.random.default_rng([seed, 2])
    arm.reset(seed)
    disturbance = Disturbance(seed) if rng.random() < 0.8 else None
    latency_s = int(rng.integers(_LATENCIES_TICKS)) / CONTROL_HZ
    link = Link(latency_s, jitter_s=_JITTER_S if rng.random() < 0.3 else 0.0, seed=seed)

    def ask(_: Float32Array | None, rows: Float32Array | None, delay_ticks: int) -> Chunk:
        chunk = expert.continue_rows(arm, rows, delay_ticks, CHUNK_SIZE)
        return chunk, chunk

    every_ticks = int(rng.integers(*_REQUEST_EVERY_TICKS))
    robot = DelayedRobot(TRAINED, link, ask, request_every_ticks=every_ticks)
    images: list[Images] = []
    frames: list[_Frame] = []
    ticks_lifted = 0
    for tick in range(int(rng.integers(*_EPISODE_TICKS))):
        if tick == 0 or rng.random() < _KEPT_FRAMES:
            images.append(_look(arm))
            frames.append(_label(arm, _vary(arm, robot.queued_rows, rng), rng, label))
        action, previous = robot.tick(), arm.command
        change = (previous if action is None else action.robot.astype(np.float64)) - previous
        command = previous + np.clip(change, -MAX_STEP, MAX_STEP)
        arm.step(command if disturbance is None else disturbance.apply(command, arm))
        ticks_lifted += arm.success
        if ticks_lifted > _TICKS_AFTER_SUCCESS:
            break
    return images, frames, ticks_lifted > 0


def _vary(arm: BeltArm, rows: Float32Array | None, rng: np.random.Generator) -> Float32Array | None:
    """Return other rows than those queued now and then: none, fewer, bent away, or the expert's own."""
    draw = rng.random()
    if draw >= 0.40 or rows is None:
        return rows
    if draw < 0.08:
        return None
    if draw < 0.16:
        return rows[: int(rng.integers(len(rows) + 1))]
    if draw < 0.30:
        bent: Float32Array = rows.copy()
        bent[:, :5] += np.linspace(0.0, 1.0, len(rows))[:, None] * rng.normal(0.0, _BEND_RAD, 5)
        return bent
    return expert.plan_from(arm, MAX_DELAY_TICKS)


def _look(arm: BeltArm) -> Images:
    """Return the cameras' images `[cameras, 3, height, width]` as the policy gets them."""
    images = (through_jpeg(arm.render(name)) for name in CAMERA_NAMES)
    return np.stack([box_resize(image, POLICY_IMAGE_HEIGHT, POLICY_IMAGE_WIDTH) for image in images])


def _label(arm: BeltArm, rows: Float32Array | None, rng: np.random.Generator, label: Label) -> _Frame:
    """Return the present state, with the plan for each of several delays of an arm that executes `rows`."""
    delays = []
    for delay_ticks in rng.integers(0, MAX_DELAY_TICKS + 1, DELAYS_PER_FRAME).tolist():
        executed = _first(rows, delay_ticks)
        plan = label(arm, executed, delay_ticks, CHUNK_SIZE)
        delays.append(_Delay(delay_ticks, executed, plan))
    return _Frame(arm.joint_positions().astype(np.float32), tuple(delays))


def _first(rows: Float32Array | None, count: int) -> Float32Array:
    return np.empty((0, 6), np.float32) if rows is None else rows[:count]


def _padded(rows: Float32Array) -> Float32Array:
    padded = np.zeros((MAX_DELAY_TICKS, 6), np.float32)
    padded[: len(rows)] = rows
    return padded
