# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A run of a two-joint robot whose every motion has a known origin, to be explained."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sensor_msgs.msg import CompressedImage

from remote_inference.base.wire.images.images import image_to_message
from remote_inference.msg import ClientState, ExecutedAction, Observation, WatchdogState
from support.builders import JOINTS, contract_document
from support.recording.synthetic_run import NS, Recording, jpeg

OWN = f"{NS}/remote_inference"
TOPICS = {
    f"{OWN}/observation": "remote_inference/msg/Observation",
    f"{OWN}/chunk": "remote_inference/msg/ActionChunk",
    f"{OWN}/state": "remote_inference/msg/ClientState",
    f"{OWN}/executed": "remote_inference/msg/ExecutedAction",
    f"{OWN}/watchdog": "remote_inference/msg/WatchdogState",
    f"{NS}/joint_states": "sensor_msgs/msg/JointState",
}
HORIZON, PERIOD_MS, FIRST_ROW = 10, 50, 3
SENT_MS, CAME_MS, CAPTURED_MS = 1000, 1150, 960
WAIT_MS, INFERENCE_MS = 10.0, 40.0
BEGIN_MS = 1160  # of the first chunk's first tick, and its tick
BEGIN_TICK = 20
CLAMPED_TICK = BEGIN_TICK + 2  # its row is beyond a limit of the first joint, and too far off for the second
VERSION = "weights-7"


def row(seq_id: int, step: int) -> list[float]:
    """Return a row of a chunk."""
    if seq_id == 1 and step == FIRST_ROW + 2:
        return [1.5, 0.75]
    return [0.25 * seq_id, 0.03125 * step]


def command(seq_id: int, step: int) -> list[float]:
    """Return what was commanded for a row."""
    return [1.0, 0.25] if row(seq_id, step)[0] > 1 else row(seq_id, step)


def digest(camera: str, seconds: float) -> str:
    """Return the SHA-256 of the image that a camera's observation of a time holds."""
    colour = {"wrist": (0, 80, 130), "front": (120, 60, 0)}[camera]
    return hashlib.sha256(jpeg(f"{camera} {seconds:.2f} s", colour)).hexdigest()


def write_explained_run(
    path: Path, *, leave_out: str = "", has_contract: bool = True, earlier_seq_ids: Sequence[int] = ()
) -> Path:
    """Write a pause, two chunks, an empty queue, a stop and the watchdog's trip, of 110 ticks.

    earlier_seq_ids: of every action of a chunk.
    """
    recording = Recording(TOPICS, JOINTS)
    recording.state(0, ClientState.CONNECTING, "start-up", paused=True)  # as older releases say it
    recording.state(900, ClientState.CONNECTING, "session granted")
    recording.state(CAME_MS, ClientState.STREAMING, "chunk 1 merged", server="/policy_server", task="wave")
    recording.state(1990, ClientState.STALLED, "queue empty", server="/policy_server")
    stopped = {"stop": "/e_stop: pressed", "paused": True, "pause_cause": "stopped by /e_stop: pressed"}
    recording.state(3000, ClientState.STALLED, "queue empty", **stopped)
    recording.state(3500, ClientState.STALLED, "queue empty", episode_id=2, **stopped)
    recording.add("watchdog", 100, WatchdogState(state=WatchdogState.ARMED, cause="the node commands"))
    tripped = WatchdogState(state=WatchdogState.TRIPPED, cause="no beat for 0.3 s", stops=["held"])
    recording.add("watchdog", 5000, tripped)
    for seq_id, sent_ms, came_ms in ((1, SENT_MS, CAME_MS), (2, 1300, 1450)):
        recording.observation(
            sent_ms,
            seq_id,
            state=[0.5, 0.25],
            task="wave",
            inference_delay_steps=4,
            client_mono_ns=sent_ms,
            capture_skew_s=0.0125,
        )
        _add_chunk(recording, came_ms, seq_id)
    for tick in range(110):
        recording.joints(tick * PERIOD_MS - 3, [0.5, 0.01 * tick], list(JOINTS))
        _add_tick(recording, tick, earlier_seq_ids)
    contract = json.dumps(contract_document()) if has_contract else ""
    return recording.write(path, leave_out, contract)


def _add_chunk(recording: Recording, came_ms: float, seq_id: int) -> None:
    rows = [value for step in range(HORIZON) for value in row(seq_id, step)]
    recording.chunk(
        came_ms,
        seq_id,
        horizon=HORIZON,
        action_dim=2,
        chunk_robot=rows,
        chunk_model=rows,
        queue_wait_ms=WAIT_MS,
        inference_ms=INFERENCE_MS,
        policy_version=VERSION,
    )


def _add_tick(recording: Recording, tick: int, earlier_seq_ids: Sequence[int]) -> None:
    at_ms = BEGIN_MS + (tick - BEGIN_TICK) * PERIOD_MS
    fields: dict[str, Any] = {"session_id": "", "seq_id": 0}
    executed = tick - BEGIN_TICK
    if 0 <= executed < 7 + 8:  # seven rows of the first chunk, eight of the second
        seq_id, step = (1, FIRST_ROW + executed) if executed < 7 else (2, executed - 5)
        captured_ms = CAPTURED_MS if seq_id == 1 else 1260
        rules = ["joint_limit", "velocity_limit"] if tick == CLAMPED_TICK else []
        recording.executed(
            at_ms,
            tick,
            command(seq_id, step),
            seq_id=seq_id,
            step_index=step,
            action_age_s=(at_ms - captured_ms) / 1e3,
            interventions=rules,
            policy_version=VERSION,
            earlier_seq_ids=list(earlier_seq_ids),
        )
    elif 40 <= tick < 50:
        last = command(2, 9)
        fields |= {"source": ExecutedAction.REPEAT_LAST, "action_age_s": float("nan")}
        recording.executed(at_ms, tick, last, interventions=["age"] if tick == 40 else [], **fields)
    elif 90 <= tick < 95:
        recording.executed(
            at_ms, tick, [0.0, 0.0], source=ExecutedAction.HOMING, action_age_s=float("nan"), session_id=""
        )
    else:
        recording.executed(at_ms, tick, None, **fields)


def write_long_run(path: Path, observations: int, size: tuple[int, int] = (640, 480)) -> Path:
    """Write a run whose observations hold large images."""
    random = np.random.default_rng(0)
    recording = Recording()
    for number in range(observations):
        pixels = random.integers(0, 255, (*size[::-1], 3), np.uint8)
        data = io.BytesIO()
        Image.fromarray(pixels).save(data, "JPEG", quality=90)
        image = CompressedImage(format="jpeg", data=data.getvalue())
        message = Observation(session_id="s1", seq_id=number + 1, images=[image])
        recording.add("observation", 100 * number, message)
        recording.executed(100 * number + 50, number, [0.0] * 6, seq_id=number + 1)
    return recording.write(path)


CAMERA = f"{NS}/front/image_raw"
PICTURE_MS = 100
PERSON_TICKS = range(20, 30)  # of 40


def picture_red(number: int) -> int:
    """Return how red the camera's picture of a number is; it comes at 100 ms times its number."""
    return 8 * number


def write_takeover_run(path: Path, *, leave_out: str = "") -> Path:
    """Write a chunk's rows and then a person's commands, while the camera goes on."""
    recording = Recording({**TOPICS, CAMERA: "sensor_msgs/msg/Image"}, JOINTS)
    recording.state(0, ClientState.STREAMING, "chunk 1 merged", server="/policy_server", task="wave")
    recording.observation(500, 1, state=[0.5, 0.25], task="wave", cameras=1)
    _add_chunk(recording, 600, 1)
    for number in range(25):
        pixels = np.full((48, 64, 3), (picture_red(number), 0, 0), np.uint8)
        recording.add("image_raw", PICTURE_MS * number, image_to_message(pixels))
    for tick in range(40):
        at_ms = PERIOD_MS * tick + 25
        if tick in PERSON_TICKS:
            person: dict[str, Any] = {"source": ExecutedAction.HUMAN, "action_age_s": float("nan")}
            recording.executed(at_ms, tick, [0.5, 0.25], session_id="", **person)
        elif 12 <= tick < 20:
            recording.executed(at_ms, tick, command(1, 0), seq_id=1, step_index=tick - 12, action_age_s=0.1)
        else:
            recording.executed(at_ms, tick, None, session_id="")
    return recording.write(path, leave_out, json.dumps(contract_document()))
