# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bags of a synthetic robot with known values, made of real messages serialized by rclpy."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage, JointState
from std_msgs.msg import Float64MultiArray

from remote_inference.bags.storage.bag_records import BagTopic
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.msg import ActionChunk, ClientState, ExecutedAction, Observation

NS = "/arm"
JOINTS = ["shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"]
TOPICS = {
    f"{NS}/remote_inference/observation": "remote_inference/msg/Observation",
    f"{NS}/remote_inference/chunk": "remote_inference/msg/ActionChunk",
    f"{NS}/remote_inference/state": "remote_inference/msg/ClientState",
    f"{NS}/remote_inference/executed": "remote_inference/msg/ExecutedAction",
    f"{NS}/joint_states": "sensor_msgs/msg/JointState",
    f"{NS}/forward_position_controller/commands": "std_msgs/msg/Float64MultiArray",
}
START_NS = 1_790_000_000_000_000_000


def jpeg(text: str, colour: tuple[int, int, int]) -> bytes:
    image = Image.new("RGB", (320, 240), colour)
    draw = ImageDraw.Draw(image)
    draw.text((20, 100), text, fill=(255, 255, 255), font_size=28)
    data = io.BytesIO()
    image.save(data, "JPEG", quality=85)
    return data.getvalue()


class Recording:
    """Collects messages with their reception in milliseconds since the start, and writes them in order.

    `topics` is message type by topic; `joint_names` are the action's.
    """

    def __init__(
        self, topics: Mapping[str, str] = TOPICS, joint_names: Sequence[str] = tuple(JOINTS)
    ) -> None:
        self._topics, self._joint_names = topics, list(joint_names)
        self._messages: list[tuple[int, str, bytes]] = []

    def add(self, topic: str, at_ms: float, message: Any) -> None:
        name = next(t for t in self._topics if t.endswith("/" + topic))
        self._messages.append((START_NS + round(at_ms * 1e6), name, serialize_message(message)))

    def observation(
        self,
        at_ms: float,
        seq_id: int,
        episode_id: int = 1,
        session_id: str = "s1",
        cameras: int = 2,
        **fields: Any,
    ) -> None:
        images = [
            CompressedImage(format="jpeg", data=jpeg(f"{name} {at_ms / 1e3:.2f} s", colour))
            for name, colour in (("wrist", (0, 80, 130)), ("front", (120, 60, 0)))[:cameras]
        ]
        for image, name in zip(images, ("wrist", "front"), strict=False):
            image.header.frame_id = name
        message = Observation(
            seq_id=seq_id, episode_id=episode_id, session_id=session_id, images=images, **fields
        )
        self.add("observation", at_ms, message)

    def chunk(self, at_ms: float, seq_id: int, session_id: str = "s1", **fields: Any) -> None:
        self.add("chunk", at_ms, ActionChunk(seq_id=seq_id, session_id=session_id, **fields))

    def state(self, at_ms: float, state: int, cause: str = "", **fields: Any) -> None:
        self.add("state", at_ms, ClientState(state=state, cause=cause, **fields))

    def executed(self, at_ms: float, tick: int, action: list[float] | None = None, **fields: Any) -> None:
        fields = {"session_id": "s1", "joint_names": self._joint_names, "episode_id": 1, **fields}
        if action is None:
            fields = {"source": ExecutedAction.NONE, "action_age_s": math.nan, **fields}
        else:
            fields = {"source": ExecutedAction.CHUNK, "action": action, **fields}
            if any(topic.endswith("/commands") for topic in self._topics):
                self.add("commands", at_ms, Float64MultiArray(data=action))
        self.add("executed", at_ms, ExecutedAction(tick=tick, **fields))

    def joints(
        self, at_ms: float, positions: list[float], names: list[str] = JOINTS, topic: str = "joint_states"
    ) -> None:
        self.add(topic, at_ms, JointState(name=names, position=positions))

    def write(self, path: Path, leave_out: str = "", contract: str = "") -> Path:
        topics = [
            BagTopic(name, kind)
            for name, kind in self._topics.items()
            if not name.endswith("/" + (leave_out or "-"))
        ]
        with BagWriter(path, topics, contract=contract) as bag:
            for stamp_ns, topic, data in sorted(self._messages):
                if topic in bag:
                    bag.write(topic, stamp_ns, data)
        return path


def trajectory(t_s: float) -> list[float]:
    return [(0.4 + 0.15 * k) * math.sin(0.9 * t_s + k) for k in range(len(JOINTS))]


def whole_run(path: Path, duration_s: float = 60.0) -> Path:
    """Write a run with a pause, two episodes, an outage, lost chunks, a latency outlier and a busy guard."""
    random = np.random.default_rng(0)
    recording = Recording()
    outage = (0.6 * duration_s, 0.6 * duration_s + 3.0)
    seq, playing_until, episode = 0, 0.0, 1
    capture, current, step = 0.0, 0, 0
    arrivals: list[tuple[float, float, int]] = []
    next_request = 1.5
    recording.state(0, ClientState.CONNECTING, "start-up", paused=True)
    recording.state(1000, ClientState.CONNECTING, "session granted", paused=True)
    recording.state(1500, ClientState.STREAMING, "chunk merged")
    recording.state(outage[0] * 1e3 + 600, ClientState.DEGRADED, "no chunk for 1.0 s", chunks_merged=50)
    recording.state(outage[0] * 1e3 + 1200, ClientState.STALLED, "queue empty", chunks_merged=50)
    recording.state(outage[0] * 1e3 + 1500, ClientState.RECONNECTING, "presence lost", chunks_merged=50)
    recording.state(
        outage[1] * 1e3 + 200, ClientState.STREAMING, "chunk merged", chunks_merged=51, chunks_dropped=2
    )
    recording.state(
        duration_s * 1e3, ClientState.STREAMING, "chunk merged", chunks_merged=100, chunks_dropped=3
    )
    for tick in range(int(duration_s * 30)):
        now = tick / 30
        episode = 1 if now < 0.5 * duration_s else 2
        recording.joints(now * 1e3 + 1, [q + random.normal(0, 0.002) for q in trajectory(now - 0.12)])
        if now >= next_request and not outage[0] < now < outage[1]:
            seq += 1
            latency = (120 + random.gamma(2, 20) + (900 if seq == 30 else 0)) / 1e3
            recording.observation(now * 1e3, seq, episode, inference_delay_steps=math.ceil(latency * 30))
            if seq % 23:
                arrivals.append((now + latency, now, seq))
                wait, infer = float(random.gamma(1, 8)), float(random.normal(70, 4))
                recording.chunk((now + latency) * 1e3, seq, queue_wait_ms=wait, inference_ms=infer)
            next_request = now + latency + 0.3
        while arrivals and arrivals[0][0] <= now:
            arrived, capture, current = arrivals.pop(0)
            step, playing_until = round((arrived - capture) * 30), capture + 1.6
        if current and now < playing_until:
            offset = 0.02 * math.sin(5.0 * current)
            recording.executed(
                now * 1e3 + 2,
                tick,
                [q + offset for q in trajectory(now)],
                seq_id=current,
                step_index=step,
                action_age_s=now - capture,
                episode_id=episode,
                interventions=["step"] if tick % 211 == 0 else [],
            )
            step += 1
        else:
            recording.executed(now * 1e3 + 2, tick, episode_id=episode)
    return recording.write(path)
