# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The measuring rig of request_cycle.py: a deployment, its sensors, and the bare ping-pong beside it.

Run as a program, it is the ping-pong's echo.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

# A running robot on this network must not meet the benchmark's topics.
os.environ.setdefault("ROS_DOMAIN_ID", "99")
os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
os.environ.setdefault("AMENT_PREFIX_PATH", sys.prefix)  # for the wheels; a sourced workspace has set it

import numpy as np
import rclpy
import yaml
from builtin_interfaces.msg import Time
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CompressedImage, Image, JointState

from remote_inference.base.exchange import Chunk, Request
from remote_inference.base.nodes.executors import make_executor
from remote_inference.base.wire.arrays import bytes_field, float64_field
from remote_inference.base.wire.chunk import chunk_to_message
from remote_inference.base.wire.images.encodings.jpeg import encode_jpeg
from remote_inference.base.wire.images.images import image_from_message, image_to_message
from remote_inference.base.wire.observation import observation_to_message
from remote_inference.base.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, LATCHED_QOS, STATE_TOPIC
from remote_inference.msg import ActionChunk, ClientState, Observation
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.process_group import ProcessGroup

HEIGHT, WIDTH = 480, 640
JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
CHUNK_SIZE, FPS = 50, 30.0
ROBOT, SERVER = "/request_cycle_robot", "/request_cycle_server"
PING, PONG = "/request_cycle/ping", "/request_cycle/pong"
SENSOR_PUBLISHER_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
ANSWER_TIMEOUT_S = 0.3
START_TIMEOUT_S = 60.0
ROBOT_PARAMETERS = {
    "autostart": True,
    "merge_mode": "replace",
    "buffer_time_s": 60.0,  # always ask
    "request_timeout_s": ANSWER_TIMEOUT_S,
    "max_timeouts": 100,  # lost messages must not end the session
}


@dataclass(frozen=True)
class Case:
    """What the robot sends: number of cameras, JPEG quality (0: raw) and size of the images [px]."""

    cameras: int
    quality: int = 0
    height: int = HEIGHT
    width: int = WIDTH

    @property
    def name(self) -> str:
        if not self.cameras:
            return "state only"
        kind = f"JPEG q{self.quality}" if self.quality else "raw"
        return f"{self.cameras} camera{'s' if self.cameras > 1 else ''}, {kind}"


def write_deployment(
    folder: Path, case: Case, fps: float = FPS, more_state: Sequence[Mapping[str, Any]] = ()
) -> tuple[Path, Path]:
    """Write contract, manifest and policy of a control rate [Hz]; return the first two.

    more_state: sources of the state besides the joints.
    """
    cameras = [f"camera_{index}" for index in range(case.cameras)]
    policy = {
        "name": "hold",
        "revision": "1",
        "state_names": [*JOINTS, *(name for source in more_state for name in source["names"])],
        "action_names": JOINTS,
        "image_features": {f"images.{camera}": [case.height, case.width, 3] for camera in cameras},
        "chunk_size": CHUNK_SIZE,
        "trained_fps": fps,
    }
    joints = {"topic": "joint_states", "type": "sensor_msgs/msg/JointState", "field": "position"}
    image = {"type": "sensor_msgs/msg/Image", "jpeg_quality": case.quality}
    limits = {"min": -3.0, "max": 3.0, "max_velocity": 3.0}
    contract = {
        "robot_type": "benchmark",
        "fps": fps,
        "task": "hold still",
        "state": [{**joints, "names": list(JOINTS)}, *more_state],
        "images": {camera: {"topic": camera, **image} for camera in cameras},
        "actions": {"kind": "position", "names": list(JOINTS), "limits": dict.fromkeys(JOINTS, limits)},
        "commands": [{"topic": "commands", "type": "std_msgs/msg/Float64MultiArray", "names": list(JOINTS)}],
    }
    manifest = {"model": {"backend": "hold", "path": "policy"}, "max_sessions": 2}
    (folder / "policy").mkdir()
    (folder / "policy" / "policy.json").write_text(json.dumps(policy))
    (folder / "contract.yaml").write_text(yaml.safe_dump(contract))
    (folder / "manifest.yaml").write_text(yaml.safe_dump(manifest))
    return folder / "contract.yaml", folder / "manifest.yaml"


AnySensors = TypeVar("AnySensors", bound="Sensors")


class Echo(bringup.Process):
    """Runs this file."""

    def command(self) -> list[str]:
        return [sys.executable, __file__]


@contextmanager
def deployment(
    folder: Path, case: Case, make_sensors: Callable[[Case], AnySensors]
) -> Iterator[tuple[AnySensors, Pinger]]:
    """Run server, robot and echo as processes; yield the sensors and a ping-pong, both warm."""
    contract, manifest = write_deployment(folder, case)
    with ProcessGroup(folder / "logs") as group:
        group.start(Echo("echo", "echo"))
        group.start(bringup.server(manifest, name=SERVER[1:]))
        group.start(bringup.robot(contract, namespace=ROBOT, servers=[SERVER], parameters=ROBOT_PARAMETERS))
        sensors, pinger = make_sensors(case), Pinger(case)
        try:
            deadline_s = time.monotonic() + START_TIMEOUT_S
            for probe in (pinger, sensors):
                while probe.measure() is None:
                    group.check()
                    if time.monotonic() > deadline_s:
                        raise SystemExit(f"{case.name}: {probe.node.get_name()} gets no answer")
            yield sensors, pinger
        finally:
            sensors.close()
            pinger.close()


def camera_image(rows: int = HEIGHT, columns: int = WIDTH) -> Image:
    """Make an image of soft shading, hard-edged boxes and sensor noise."""
    random = np.random.default_rng(0)
    y, x = np.mgrid[:rows, :columns]
    shading = [120 + 80 * np.sin(x / 90), 110 + 70 * np.cos(y / 70), 90 + 60 * np.sin((x + y) / 130)]
    image = np.stack(shading, axis=-1)
    for _ in range(40):
        top, left = random.integers(0, rows - 40), random.integers(0, columns - 60)
        height, width = random.integers(8, 120, 2)
        image[top : top + height, left : left + width] = random.integers(0, 255, 3)
    return image_to_message((image + random.normal(0, 3, image.shape)).clip(0, 255).astype(np.uint8))


def plain_node(name: str) -> Node:
    return rclpy.create_node(name, start_parameter_services=False)


class Probe:
    """A node that publishes a message and measures the time until the ActionChunk that answers it."""

    def __init__(self, name: str, answer_topic: str) -> None:
        self.node = plain_node(name)
        self.node.create_subscription(ActionChunk, answer_topic, self._take, EXCHANGE_QOS)
        self._executor, _ = make_executor("events")
        self._executor.add_node(self.node)
        self._answer: tuple[int, ActionChunk] | None = None

    def _take(self, chunk: ActionChunk) -> None:
        self._answer = (time.monotonic_ns(), chunk)

    def start(self) -> int:
        """Publish the message to be answered; return the monotonic time from which to measure [ns]."""
        raise NotImplementedError

    def is_answered_by(self, chunk: ActionChunk) -> bool:
        raise NotImplementedError

    def measure(self) -> float | None:
        """Return the time until the answer [ms], None when a message was lost."""
        self._answer = None
        start_ns = self.start()
        deadline_ns = start_ns + int(ANSWER_TIMEOUT_S * 1e9)
        while self._answer is None or not self.is_answered_by(self._answer[1]):
            if time.monotonic_ns() > deadline_ns:
                return None
            self._executor.spin_once(timeout_sec=ANSWER_TIMEOUT_S / 2)
        return (self._answer[0] - start_ns) / 1e6

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()


class Sensors(Probe):
    """The robot's sensors: all images, then the joint state that completes the observation."""

    def __init__(self, case: Case) -> None:
        super().__init__("request_cycle_sensors", f"{ROBOT}/{CHUNK_TOPIC}")
        self._state: ClientState | None = None
        self._image = camera_image(case.height, case.width)
        self._turn = 0
        self._cameras = [
            self.node.create_publisher(Image, f"{ROBOT}/camera_{index}", SENSOR_PUBLISHER_QOS)
            for index in range(case.cameras)
        ]
        self._joints = self.node.create_publisher(JointState, f"{ROBOT}/joint_states", SENSOR_PUBLISHER_QOS)
        self.node.create_subscription(ClientState, f"{ROBOT}/{STATE_TOPIC}", self._take_state, LATCHED_QOS)

    def _take_state(self, state: ClientState) -> None:
        self._state = state

    def start(self) -> int:
        for camera in self._cameras:
            camera.publish(self._image)
        self._turn = self._turn % 1000 + 1
        joints = JointState(name=list(JOINTS), position=float64_field(np.full(len(JOINTS), self._position)))
        start_ns = time.monotonic_ns()
        self._joints.publish(joints)
        return start_ns

    def is_answered_by(self, chunk: ActionChunk) -> bool:
        # The policy holds still: its actions are the joint positions of the observation that it answers.
        return len(chunk.chunk_robot) > 0 and chunk.chunk_robot[0] == self._position

    @property
    def _position(self) -> float:
        return float(np.float32(self._turn * 1e-3))

    def measure(self) -> float | None:
        if (duration_ms := super().measure()) is None:
            # The robot may hold an unused joint state now: images alone use it up.
            for camera in self._cameras:
                camera.publish(self._image)
            time.sleep(ANSWER_TIMEOUT_S)
        return duration_ms

    def request_cycle_p50_ms(self) -> float:
        """Return the median of the last 100 cycles as the robot reports it."""
        self._state = None
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while self._state is None:
            if time.monotonic() > deadline_s:
                raise SystemExit("the robot does not report its state")
            self._executor.spin_once(timeout_sec=1.0)
        return self._state.latency_p50_ms


class Pinger(Probe):
    """Two plain nodes: the robot's observation, prepared once, is answered with a chunk, prepared once."""

    def __init__(self, case: Case) -> None:
        super().__init__("request_cycle_ping", PONG)
        self.message = make_request(case)
        self._publisher = self.node.create_publisher(Observation, PING, EXCHANGE_QOS)

    def start(self) -> int:
        start_ns = time.monotonic_ns()
        self._publisher.publish(self.message)
        return start_ns

    def is_answered_by(self, chunk: ActionChunk) -> bool:  # noqa: ARG002
        return True


def make_request(case: Case) -> Observation:
    """Return an observation as the robot of a case sends it."""
    image = camera_image(case.height, case.width)
    if case.quality:
        jpeg = encode_jpeg(image_from_message(image), case.quality)
        image = CompressedImage(format="jpeg", data=bytes_field(jpeg))
    prefix = np.zeros((CHUNK_SIZE, len(JOINTS)), np.float32)
    request = Request("0" * 12, 1, 1, 0, False, 1, "hold still", 1, prefix, prefix)
    state = np.zeros(len(JOINTS), np.float32)
    return observation_to_message(request, state, [image] * case.cameras, Time())


def echo() -> None:
    """Answer each ping, until SIGINT."""
    rclpy.init()
    node = plain_node("request_cycle_echo")
    rows = np.zeros((CHUNK_SIZE, len(JOINTS)), np.float32)
    chunk = Chunk("0" * 12, 1, 1, 0, 1, model=rows, robot=rows, policy_version="0" * 16)
    pong = chunk_to_message(chunk, node.get_clock().now().to_msg())
    publisher = node.create_publisher(ActionChunk, PONG, EXCHANGE_QOS)
    node.create_subscription(Observation, PING, lambda _: publisher.publish(pong), EXCHANGE_QOS)
    executor, _ = make_executor("events")
    executor.add_node(node)
    with suppress(KeyboardInterrupt, ExternalShutdownException):
        while rclpy.ok():
            executor.spin_once(timeout_sec=1.0)
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown()


if __name__ == "__main__":
    echo()
