# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Training data of the belt arm: observations labelled by the expert, without latency and with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from belt_arm import expert
from belt_arm.labelled_episode import (
    POLICY_IMAGE_HEIGHT,
    POLICY_IMAGE_WIDTH,
    TICKS_AFTER_SUCCESS,
    DelayedDataset,
    Disturbance,
    Encode,
    Label,
    camera_images,
    collect_episode,
)
from remote_inference.base.policy import Float32Array
from remote_inference.learn.environments.belt_arm.scene import CAMERA_NAMES, BeltArm

FIRST_TRAINING_SEED, FIRST_DELAYED_SEED = 10_000, 20_000
CHUNK_SIZE = 40
_MAX_TICKS = 120


@dataclass(frozen=True)
class Dataset:
    """Frames of all episodes, end to end.

    images: uint8 `[frames, cameras, 3, height, width]`, cameras in the order of `CAMERA_NAMES`.
    states: float32 `[frames, 6]`. chunks: float32 `[frames, CHUNK_SIZE, 6]`, robot units. successes: number
    of episodes that lifted the cube.
    """

    images: NDArray[np.uint8]
    states: NDArray[np.float32]
    chunks: NDArray[np.float32]
    episodes: int
    successes: int


def collect(episodes: int, progress: Callable[[str], None] = print) -> Dataset:
    """Run expert episodes with seeds from `FIRST_TRAINING_SEED` on; equal counts give equal data."""
    capacity = episodes * _MAX_TICKS
    images = np.empty((capacity, len(CAMERA_NAMES), 3, POLICY_IMAGE_HEIGHT, POLICY_IMAGE_WIDTH), np.uint8)
    states = np.empty((capacity, 6), np.float32)
    chunks = np.empty((capacity, CHUNK_SIZE, 6), np.float32)
    frames = successes = 0
    arm = BeltArm()
    try:
        for episode in range(episodes):
            seed = FIRST_TRAINING_SEED + episode
            arm.reset(seed)
            disturbance = Disturbance(seed) if episode % 5 else None
            ticks_lifted = 0
            for _ in range(_MAX_TICKS):
                label = expert.plan_from(arm, CHUNK_SIZE)
                images[frames] = camera_images(arm)
                states[frames] = arm.joint_positions()
                chunks[frames] = label
                frames += 1
                command = label[0].astype(np.float64)
                arm.step(command if disturbance is None else disturbance.apply(command, arm))
                ticks_lifted += arm.success
                if ticks_lifted > TICKS_AFTER_SUCCESS:
                    break
            successes += ticks_lifted > 0
            if (episode + 1) % 50 == 0:
                progress(f"collect: {episode + 1}/{episodes} episodes, {frames} frames, {successes} lifted")
    finally:
        arm.close()
    return Dataset(images[:frames], states[:frames], chunks[:frames], episodes, successes)


def collect_delayed(
    episodes: int,
    encode: Encode,
    progress: Callable[[str], None] = print,
    *,
    label: Label = expert.plan_after,
) -> DelayedDataset:
    """Run episodes from `FIRST_DELAYED_SEED` on; equal counts, encoders and labels give equal data."""
    parts: list[DelayedDataset] = []
    arm = BeltArm()
    try:
        for episode in range(episodes):
            parts.append(collect_episode(arm, FIRST_DELAYED_SEED + episode, encode, label=label))
            if (episode + 1) % 50 == 0:
                frames = sum(len(part.states) for part in parts)
                lifted = sum(part.successes for part in parts)
                done = f"{episode + 1}/{episodes} episodes with latency"
                progress(f"collect: {done}, {frames} frames, {lifted} lifted")
    finally:
        arm.close()
    return DelayedDataset.join(parts)


def plan_of_present(arm: BeltArm, actions: Float32Array, _delay_ticks: int, horizon: int) -> Float32Array:
    """Return what follows `actions` in the expert's plan for the present `[horizon, 6]`.

    The label of a policy that is trained as if answers took no time.
    """
    return expert.plan_from(arm, len(actions) + horizon)[len(actions) :]
