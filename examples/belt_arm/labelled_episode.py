# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One labelled episode of the belt arm, for policies that get the prefix and the delay (training-time RTC).

The expert drives under a latency that is drawn for each episode. In four episodes of five the executed
command is disturbed in bursts while the labels stay the expert's, so the policy also sees how to come back.
Each frame gets several delays, drawn at random whatever the episode's latency; the label of each is the
expert's plan after the actions that are executed within the delay, or what another `Label` returns. Images
pass the same steps as in serving: camera, JPEG, preprocessor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from belt_arm import expert
from belt_arm.delayed_robot import Chunk, DelayedRobot, Link
from remote_inference.base.policy import Float32Array
from remote_inference.learn.environments.belt_arm import kinematics
from remote_inference.learn.environments.belt_arm.scene import (
    CAMERA_NAMES,
    CONTROL_HZ,
    GRIPPER_OPEN_M,
    MAX_STEP,
    BeltArm,
)
from remote_inference.learn.environments.belt_arm.strategies import TRAINED
from remote_inference.server.policies.trained_policy import box_resize

POLICY_IMAGE_HEIGHT, POLICY_IMAGE_WIDTH = 72, 96
JPEG_QUALITY = 90
TICKS_AFTER_SUCCESS = 12
MAX_DELAY_TICKS = 36
"""1 s, what the network and the robot add to it, and 100 ms of jitter."""
CHUNK_SIZE = 70
"""As many new actions after the longest delay as the next answer takes: the arm need not wait."""
DELAYS_PER_FRAME = 4

_LATENCIES_TICKS = 31  # 0 to 30
_JITTER_S = 4 / CONTROL_HZ
_KEPT_FRAMES = 0.5
_EPISODE_TICKS = (60, 150)
_REQUEST_EVERY_TICKS = (1, 13)
_BEND_RAD = 0.06

Images = NDArray[np.uint8]
Encode = Callable[[Images, Float32Array], Float32Array]
"""Returns features `[frames, n]` of uint8 images `[frames, cameras, 3, height, width]` and states."""
Label = Callable[[BeltArm, Float32Array, int, int], Float32Array]
"""Returns a chunk `[horizon, 6]` for the arm, the actions of the delay, the delay [ticks], the horizon."""
_BURST_PROBABILITY = 0.05
_BURST_TICKS = (4, 10)
_BURST_SPEED_M_S = 0.25
_JITTER_RAD = 0.006
_LOWEST_TIP_M = 0.010


@dataclass(frozen=True)
class DelayedDataset:
    """Frames of all episodes, end to end, and the delays of each.

    views: float32 `[frames, n]`, what the encoders see. states: float32 `[frames, 6]`. By delay: frame: int64
    `[delays]`; actions: float32 `[delays, MAX_DELAY_TICKS, 6]`, executed in this order, robot units;
    executed: int64 `[delays]`, the number of actions that count; ticks: int64 `[delays]`, until the plan
    begins; plans: float32 `[delays, CHUNK_SIZE, 6]`. successes: number of episodes that lifted the cube.
    """

    views: Float32Array
    states: Float32Array
    frame: NDArray[np.int64]
    actions: Float32Array
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
            actions=np.concatenate([part.actions for part in parts]),
            executed=np.concatenate([part.executed for part in parts]),
            ticks=np.concatenate([part.ticks for part in parts]),
            plans=np.concatenate([part.plans for part in parts]),
            episodes=sum(part.episodes for part in parts),
            successes=sum(part.successes for part in parts),
        )


def through_jpeg(image: NDArray[np.uint8], quality: int = JPEG_QUALITY) -> NDArray[np.uint8]:
    """Return RGB `[h, w, 3]` as it arrives after JPEG compression."""
    encoded = simplejpeg.encode_jpeg(image, quality=quality, colorspace="RGB", fastdct=True)
    decoded: NDArray[np.uint8] = simplejpeg.decode_jpeg(
        encoded, colorspace="RGB", fastdct=True, fastupsample=True
    )
    return decoded


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
        actions=np.stack([_padded(delay.actions) for _, delay in delays]),
        executed=np.array([len(delay.actions) for _, delay in delays]),
        ticks=np.array([delay.ticks for _, delay in delays]),
        plans=np.stack([delay.plan for _, delay in delays]),
        episodes=1,
        successes=int(lifted),
    )


@dataclass(frozen=True)
class _Delay:
    ticks: int
    actions: Float32Array  # `[executed, 6]`
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

    def ask(_: Float32Array | None, actions: Float32Array | None, delay_ticks: int) -> Chunk:
        chunk = expert.continue_prefix(arm, actions, delay_ticks, CHUNK_SIZE)
        return chunk, chunk

    every_ticks = int(rng.integers(*_REQUEST_EVERY_TICKS))
    robot = DelayedRobot(TRAINED, link, ask, request_every_ticks=every_ticks)
    images: list[Images] = []
    frames: list[_Frame] = []
    ticks_lifted = 0
    for tick in range(int(rng.integers(*_EPISODE_TICKS))):
        if tick == 0 or rng.random() < _KEPT_FRAMES:
            images.append(camera_images(arm))
            frames.append(_label(arm, _vary(arm, robot.queued_actions, rng), rng, label))
        action, previous = robot.tick(), arm.command
        change = (previous if action is None else action.robot.astype(np.float64)) - previous
        command = previous + np.clip(change, -MAX_STEP, MAX_STEP)
        arm.step(command if disturbance is None else disturbance.apply(command, arm))
        ticks_lifted += arm.success
        if ticks_lifted > TICKS_AFTER_SUCCESS:
            break
    return images, frames, ticks_lifted > 0


def _vary(arm: BeltArm, actions: Float32Array | None, rng: np.random.Generator) -> Float32Array | None:
    """Return other actions than those queued now and then: none, fewer, bent away, or the expert's own."""
    draw = rng.random()
    if draw >= 0.40 or actions is None:
        return actions
    if draw < 0.08:
        return None
    if draw < 0.16:
        return actions[: int(rng.integers(len(actions) + 1))]
    if draw < 0.30:
        bent: Float32Array = actions.copy()
        bent[:, :5] += np.linspace(0.0, 1.0, len(actions))[:, None] * rng.normal(0.0, _BEND_RAD, 5)
        return bent
    return expert.plan_from(arm, MAX_DELAY_TICKS)


def camera_images(arm: BeltArm) -> Images:
    """Return the cameras' images `[cameras, 3, height, width]` as the policy gets them."""
    images = (through_jpeg(arm.render(name)) for name in CAMERA_NAMES)
    return np.stack([box_resize(image, POLICY_IMAGE_HEIGHT, POLICY_IMAGE_WIDTH) for image in images])


def _label(arm: BeltArm, actions: Float32Array | None, rng: np.random.Generator, label: Label) -> _Frame:
    """Return the present state, with plans for several delays of an arm that executes `actions`."""
    delays = []
    for delay_ticks in rng.integers(0, MAX_DELAY_TICKS + 1, DELAYS_PER_FRAME).tolist():
        executed = _first(actions, delay_ticks)
        plan = label(arm, executed, delay_ticks, CHUNK_SIZE)
        delays.append(_Delay(delay_ticks, executed, plan))
    return _Frame(arm.joint_positions().astype(np.float32), tuple(delays))


def _first(actions: Float32Array | None, count: int) -> Float32Array:
    return np.empty((0, 6), np.float32) if actions is None else actions[:count]


def _padded(actions: Float32Array) -> Float32Array:
    padded = np.zeros((MAX_DELAY_TICKS, 6), np.float32)
    padded[: len(actions)] = actions
    return padded
