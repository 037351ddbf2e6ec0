# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A bag of a small robot with two cameras whose every value is known, to be exported."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Picture
from rclpy.time import Time
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import Header

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.msg import ClientState, ExecutedAction
from support.builders import JOINTS, contract_document
from support.recording.synthetic_run import START_NS, Recording

FPS = 20.0
PERIOD_MS = 1000 / FPS
TICKS = 60  # of each episode
COMMANDED_FROM = 10  # first tick of an episode with a command
SILENT, GUARDED, HUMAN = range(30, 33), range(40, 42), range(50, 55)  # ticks of an episode
WAIT_MS, INFERENCE_MS = 3.0, 40.0
NS = "/arm"
Stamps = Callable[[float], float]
TOPICS = {
    f"{NS}/remote_inference/chunk": "remote_inference/msg/ActionChunk",
    f"{NS}/remote_inference/state": "remote_inference/msg/ClientState",
    f"{NS}/remote_inference/executed": "remote_inference/msg/ExecutedAction",
    f"{NS}/joint_states": "sensor_msgs/msg/JointState",
    f"{NS}/front/image_raw": "sensor_msgs/msg/Image",
    f"{NS}/wrist/compressed": "sensor_msgs/msg/CompressedImage",
}


def document(**changes: Any) -> dict[str, Any]:
    """Return the robot's contract: a raw camera, renamed, and a JPEG camera."""
    wrist = {"topic": "wrist/compressed", "type": "sensor_msgs/msg/CompressedImage"}
    plain = contract_document(fps=FPS)
    return plain | {"images": {**plain["images"], "wrist": wrist}} | changes


def contract() -> Contract:
    return parse_document(document(), Contract, "test")


def joints_at(t_ms: float) -> list[float]:
    """Return what the joint message of a time says."""
    return [math.sin(t_ms / 700 + k) for k in range(len(JOINTS))]


def action_of(tick: int) -> list[float]:
    return [0.01 * tick, -0.02 * tick]


def picture(t_ms: float) -> NDArray[np.uint8]:
    """Return a smooth image that tells its time."""
    y, x = np.mgrid[0:48, 0:64]
    return np.stack([2 * x, 4 * y, np.full_like(x, int(t_ms / 40) % 256)], axis=2).astype(np.uint8)


def newest(times_ms: np.ndarray, at_ms: float) -> float:
    return float(times_ms[times_ms <= at_ms][-1])


def joints_seen(tick: int) -> list[float]:
    """Return what the robot had heard of its joints by a tick, though newer ones came before its report."""
    return joints_at(newest(np.arange(5.0, 2 * TICKS * PERIOD_MS, 11.0), tick * PERIOD_MS))


def picture_seen(tick: int) -> np.ndarray:
    return picture(newest(np.arange(7.0, 2 * TICKS * PERIOD_MS, 33.0), tick * PERIOD_MS))


def jpeg(rgb: NDArray[np.uint8]) -> bytes:
    data = io.BytesIO()
    Picture.fromarray(rgb).save(data, "JPEG", quality=95)
    return data.getvalue()


def write_picked_run(
    path: Path,
    *,
    stalls: bool = False,
    leave_out: str = "",
    simulated_time: bool = False,
    stamps_ms: Stamps = lambda at_ms: at_ms,
    **changes: Any,
) -> Path:
    """Write two episodes of TICKS ticks each. stalls: the second ends without actions.

    simulated_time: the node's stamps begin at 0. stamps_ms: what its clock shows at a time.
    """
    recording = Recording(TOPICS, JOINTS)
    recording.state(1, ClientState.CONNECTING, task="wave", paused=True, episode_id=1)
    for at_ms in np.arange(5.0, 2 * TICKS * PERIOD_MS, 11.0):
        recording.joints(at_ms, joints_at(at_ms), list(JOINTS))
    for at_ms in np.arange(7.0, 2 * TICKS * PERIOD_MS, 33.0):
        recording.add("image_raw", at_ms, image_to_message(picture(at_ms)))
        recording.add("compressed", at_ms, CompressedImage(format="jpeg", data=jpeg(picture(at_ms))))
    for tick in range(2 * TICKS):
        _add_tick(recording, tick, stalls=stalls, simulated_time=simulated_time, stamps_ms=stamps_ms)
    return recording.write(path, leave_out, json.dumps(document(**changes)))


def _add_tick(
    recording: Recording, tick: int, *, stalls: bool, simulated_time: bool, stamps_ms: Stamps
) -> None:
    episode, place = divmod(tick, TICKS)
    at_ms = tick * PERIOD_MS
    task = ("wave", "point")[episode]
    if place == 4:
        recording.state(at_ms - 1, ClientState.STREAMING, task=task, episode_id=episode + 1)
    if place == TICKS - 3:
        last = ClientState.STALLED if stalls and episode else ClientState.STREAMING
        recording.state(at_ms - 1, last, task=task, paused=place == 0, episode_id=episode + 1)
    if place == COMMANDED_FROM:
        recording.chunk(at_ms - 5, tick, queue_wait_ms=WAIT_MS, inference_ms=INFERENCE_MS)
    begin_ns = 0 if simulated_time else START_NS
    stamp = Time(nanoseconds=begin_ns + round(stamps_ms(at_ms) * 1e6)).to_msg()
    fields: dict[str, Any] = {"header": Header(stamp=stamp), "episode_id": episode + 1}
    if place < COMMANDED_FROM or place in SILENT:
        recording.executed(at_ms + 20, tick, None, session_id="", **fields)
        return
    if place in GUARDED:
        fields["interventions"] = ["step"]
    if place in HUMAN:
        fields |= {"source": ExecutedAction.HUMAN, "session_id": "", "action_age_s": math.nan}
    else:
        fields |= {"seq_id": tick - place + COMMANDED_FROM, "step_index": place - COMMANDED_FROM}
    recording.executed(at_ms + 20, tick, action_of(tick), **fields)
