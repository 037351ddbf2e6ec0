# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A bag of a two-joint robot whose requests, chunks and executed actions are known, and policies for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rclpy.time import Time
from std_msgs.msg import Header

from remote_inference.base.policy import Float32Array
from remote_inference.base.wire.arrays import float32_field
from remote_inference.base.wire.observation import observation_to_message
from remote_inference.msg import ActionChunk, ExecutedAction, Observation
from support.builders import CHUNK_SIZE, JOINTS, contract_document, make_request
from support.recording.synthetic_run import START_NS, Recording

NS = "/arm"
PERIOD_MS = 50.0
REQUESTS = 10
TICKS_APART = 15  # ticks between two requests; each chunk is executed from its row DELAY on
DELAY = 3
EXECUTED_OFF = (0.02, -0.04)  # executed minus what the policy then answered
TOPICS = {
    f"{NS}/remote_inference/{kind}": f"remote_inference/msg/{name}"
    for kind, name in (
        ("observation", "Observation"),
        ("chunk", "ActionChunk"),
        ("executed", "ExecutedAction"),
    )
}
Change = Callable[[str, int, Any], Any]  # topic's end, number and message; returns a message or None


def state_of(seq_id: int) -> Float32Array:
    return np.array([0.1 * seq_id, -0.05 * seq_id], np.float32)


def contract_text(**changes: Any) -> str:
    return json.dumps({**contract_document(), "images": {}, "rename": {}, **changes})


def write_policy(
    folder: Path, name: str = "hold", manifest: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """Write a policy that holds the measured position, which is what the robot was answered with."""
    policy = {
        "name": name,
        "revision": "1",
        "state_names": JOINTS,
        "action_names": JOINTS,
        "chunk_size": CHUNK_SIZE,
        "trained_fps": 20.0,
    }
    folder = folder / name
    folder.mkdir(exist_ok=True)
    (folder / "policy.json").write_text(json.dumps({**policy, **changes}))
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump({"model": {"backend": "hold", "path": "."}, **(manifest or {})}))
    return path


def write_asked_run(
    path: Path,
    *,
    change: Change = lambda topic, number, message: message,
    contract: str | None = None,
    leave_out: str = "",
    answered_off: float = 0.0,
) -> Path:
    """Write a bag. answered_off: added to every recorded chunk."""
    recording = Recording(TOPICS, JOINTS)
    numbers = dict.fromkeys(("observation", "chunk", "executed"), 0)

    def add(topic: str, at_ms: float, message: Any) -> None:
        changed = change(topic, numbers[topic], message)
        numbers[topic] += 1
        if changed is not None:
            recording.add(topic, at_ms, changed)

    for number in range(REQUESTS):
        at_ms = number * TICKS_APART * PERIOD_MS
        add("observation", at_ms + 1, _request(number + 1, at_ms + 1))
        add("chunk", at_ms + 2, _chunk(number + 1, answered_off))
    for tick in range(DELAY, REQUESTS * TICKS_APART):
        add("executed", tick * PERIOD_MS + 10, _executed(tick))
    return recording.write(path, leave_out, contract_text() if contract is None else contract)


def _request(seq_id: int, at_ms: float) -> Observation:
    request = make_request(session_id="s1", seq_id=seq_id, episode_id=1)
    return observation_to_message(request, state_of(seq_id), [], _stamp(at_ms))


def _chunk(seq_id: int, off: float) -> Any:
    rows = float32_field(np.tile(state_of(seq_id) + np.float32(off), (CHUNK_SIZE, 1)))
    return ActionChunk(
        schema_version=1,
        session_id="s1",
        seq_id=seq_id,
        horizon=CHUNK_SIZE,
        action_dim=2,
        chunk_model=rows,
        chunk_robot=rows,
        policy_version="older",
    )


def _executed(tick: int) -> ExecutedAction:
    """Return the tick that executes a row of the request DELAY ticks or more before."""
    number = (tick - DELAY) // TICKS_APART
    action = state_of(number + 1) + np.array(EXECUTED_OFF)
    return ExecutedAction(
        header=Header(stamp=_stamp(tick * PERIOD_MS + 10)),
        tick=1000 + tick,
        source=ExecutedAction.CHUNK,
        joint_names=list(JOINTS),
        action=action.tolist(),
        session_id="s1",
        seq_id=number + 1,
        step_index=tick - number * TICKS_APART,
        episode_id=1,
    )


def _stamp(at_ms: float) -> Any:
    return Time(nanoseconds=START_NS + round(at_ms * 1e6)).to_msg()
