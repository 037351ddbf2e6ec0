# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Training data of the belt arm: expert-labelled observations, most of them off the expert's path.

In four episodes of five the executed command is disturbed in bursts while the labels stay the expert's, so
the policy also sees how to come back. Images pass the same steps as in serving: camera, JPEG, preprocessor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from remote_inference.environments.belt_arm import expert, kinematics
from remote_inference.environments.belt_arm.scene import CAMERA_NAMES, CONTROL_HZ, GRIPPER_OPEN_M, BeltArm
from remote_inference.policies.box_resize import box_resize

FIRST_TRAINING_SEED = 10_000
POLICY_IMAGE_HEIGHT, POLICY_IMAGE_WIDTH = 72, 96
CHUNK_SIZE = 40
JPEG_QUALITY = 90

_MAX_TICKS = 120
_TICKS_AFTER_SUCCESS = 12
_BURST_PROBABILITY = 0.05
_BURST_TICKS = (4, 10)
_BURST_SPEED_M_S = 0.25
_JITTER_RAD = 0.006
_LOWEST_TIP_M = 0.010


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


def through_jpeg(image: NDArray[np.uint8], quality: int = JPEG_QUALITY) -> NDArray[np.uint8]:
    """Return RGB `[h, w, 3]` as it arrives after JPEG compression."""
    encoded = simplejpeg.encode_jpeg(image, quality=quality, colorspace="RGB", fastdct=True)
    decoded: NDArray[np.uint8] = simplejpeg.decode_jpeg(
        encoded, colorspace="RGB", fastdct=True, fastupsample=True
    )
    return decoded


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
                for camera, name in enumerate(CAMERA_NAMES):
                    image = through_jpeg(arm.render(name))
                    images[frames, camera] = box_resize(image, POLICY_IMAGE_HEIGHT, POLICY_IMAGE_WIDTH)
                states[frames] = arm.joint_positions()
                chunks[frames] = label
                frames += 1
                command = label[0].astype(np.float64)
                arm.step(command if disturbance is None else disturbance.apply(command, arm))
                ticks_lifted += arm.success
                if ticks_lifted > _TICKS_AFTER_SUCCESS:
                    break
            successes += ticks_lifted > 0
            if (episode + 1) % 50 == 0:
                progress(f"collect: {episode + 1}/{episodes} episodes, {frames} frames, {successes} lifted")
    finally:
        arm.close()
    return Dataset(images[:frames], states[:frames], chunks[:frames], episodes, successes)


class Disturbance:
    """Noise on the executed commands of one episode: constant jitter, and bursts that drag the tip away."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 1])
        self._ticks_left = 0
        self._tip_step_m = np.zeros(3)

    def apply(self, command: NDArray[np.float64], arm: BeltArm) -> NDArray[np.float64]:
        """Return the command `[6]` to execute in place of the expert's."""
        disturbed = command.copy()
        if self._ticks_left == 0 and self._rng.random() < _BURST_PROBABILITY and not arm.success:
            self._ticks_left = int(self._rng.integers(*_BURST_TICKS))
            self._tip_step_m = self._rng.normal(0.0, _BURST_SPEED_M_S, 3) / CONTROL_HZ
        if self._ticks_left > 0:
            self._ticks_left -= 1
            self._drag(disturbed, arm)
        disturbed[:5] += self._rng.normal(0.0, _JITTER_RAD, 5)
        too_low = kinematics.forward(disturbed.tolist())[2] < _LOWEST_TIP_M
        return command if too_low else disturbed

    def _drag(self, command: NDArray[np.float64], arm: BeltArm) -> None:
        x, y, z = np.add(kinematics.forward(arm.command.tolist()), self._tip_step_m).tolist()
        if not 0.14 < np.hypot(x, y) < 0.30:
            return
        command[:5] = kinematics.inverse((x, y, min(max(z, 0.012), 0.2)))
        if not expert.is_held(arm):
            command[5] = np.clip(arm.command[5] + self._rng.choice([0.0, 0.0, 0.006]), 0.0, GRIPPER_OPEN_M)
