# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot without a robot: publishes joints and a camera, takes commands, runs the nodes as processes."""

from __future__ import annotations

import json
import math
import os
import subprocess
import threading
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import rclpy
import yaml
from builtin_interfaces.msg import Time
from lifecycle_msgs.srv import GetState
from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from rclpy.context import Context
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.subscription import Subscription
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from remote_inference.base.wire.qos import EXECUTED_QOS, EXECUTED_TOPIC, SENSOR_QOS, STATE_TOPIC
from remote_inference.msg import ClientState, ExecutedAction
from remote_inference.srv import GetStatus, OpenSession
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.process_group import ProcessGroup
from support.nodes import warm_start

DEADLINE_S = 30.0
RETRY_S = 2.0  # a message that may have been lost is sent again after this
READ_ONLY = (GetParameters, GetState, GetStatus)  # services that may be asked twice
# Deeper than the publishers' queues: the test's process may be slow, and every message counts.
DEEP_QOS = QoSProfile(depth=1000)
DEEP_LATCHED_QOS = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)
JOINTS = ("shoulder", "elbow")
FEATURE = "observation.images.camera"
CONTRACT: dict[str, Any] = {
    "robot_type": "rig",
    "fps": 30.0,
    "task": "hold still",
    "state": [
        {
            "topic": "joint_states",
            "type": "sensor_msgs/msg/JointState",
            "field": "position",
            "names": list(JOINTS),
        }
    ],
    "images": {"camera": {"topic": "camera/image_raw", "type": "sensor_msgs/msg/Image"}},
    "rename": {"images.camera": FEATURE},
    "actions": {
        "kind": "position",
        "names": list(JOINTS),
        "limits": {name: {"min": -2.0, "max": 2.0, "max_velocity": 3.0} for name in JOINTS},
    },
    "commands": [
        {"topic": "commands", "type": "std_msgs/msg/Float64MultiArray", "names": list(reversed(JOINTS))}
    ],
}
POLICY: dict[str, Any] = {
    "name": "hold",
    "revision": "1",
    "state_names": list(JOINTS),
    "action_names": list(JOINTS),
    "image_features": {FEATURE: [48, 64, 3]},
    "chunk_size": 20,
    "trained_fps": 30.0,
}


def write_contract(folder: Path, **changes: Any) -> Path:
    path = folder / "contract.yaml"
    path.write_text(yaml.safe_dump({**CONTRACT, **changes}))
    return path


def write_manifest(folder: Path, policy: dict[str, Any] | None = None, **changes: Any) -> Path:
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "policy.json").write_text(json.dumps({**POLICY, **(policy or {})}))
    path = folder / "manifest.yaml"
    path.write_text(
        yaml.safe_dump({"model": {"backend": "hold", "path": "model"}, "max_sessions": 4, **changes})
    )
    return path


class RigProcesses(ProcessGroup):
    """Starts our nodes with the executor that the environment variable TEST_EXECUTOR names, if it does.

    But not the watchdog: with the plain executor it falls behind on a busy machine and holds an old position.
    """

    def start(self, process: bringup.Process) -> subprocess.Popen[bytes]:
        executor = os.environ.get("TEST_EXECUTOR")
        if executor and not process.words and process.executable != "command_watchdog":
            process = replace(process, parameters={"executor": executor, **process.parameters})
        return super().start(process)

    def launch(self, process: bringup.Process, output: IO[bytes] | None) -> subprocess.Popen[bytes]:
        if warm_start.is_possible(process):
            return warm_start.launch(process, output)
        return super().launch(process, output)


class Rig:
    """The robot's hardware and its operator; spins on a thread of its own."""

    def __init__(self, folder: Path, namespace: str = "/rig") -> None:
        self.folder = folder
        self.namespace = namespace
        self.group = RigProcesses(folder / "logs")
        self.positions = [0.25, -0.5]  # measured, order of JOINTS
        self.follows = False  # its commands, at once
        self.clock_offset_s = 0.0  # of the clock by which the sensors' messages are stamped
        self.commands: list[tuple[float, tuple[float, ...]]] = []  # arrival [s], order of the sink
        self.states: list[ClientState] = []
        self.executed: list[ExecutedAction] = []
        self._changed = threading.Condition()
        self._clients: dict[str, tuple[Client, Client]] = {}
        self._nodes: list[Node] = []
        self._context = Context()
        rclpy.init(context=self._context)
        self.node = rclpy.create_node("rig", namespace=namespace, context=self._context)
        self._joints = self.node.create_publisher(JointState, "joint_states", SENSOR_QOS)
        self._camera: Publisher | None = self.node.create_publisher(Image, "camera/image_raw", SENSOR_QOS)
        self._camera_node = self.node
        self._start_controller()
        self.subscribe(ClientState, STATE_TOPIC, self.states.append, DEEP_LATCHED_QOS)
        self.subscribe(ExecutedAction, EXECUTED_TOPIC, self.executed.append, EXECUTED_QOS)
        self.node.create_timer(1.0 / 30.0, self._publish_sensors)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.group.stop()
        self._stop.set()
        self._thread.join(DEADLINE_S)
        self._executor.shutdown(timeout_sec=1.0)
        for node in (self.node, *self._nodes):
            node.destroy_node()
        rclpy.shutdown(context=self._context)

    def start_server(self, manifest: Path, **parameters: Any) -> None:
        self.server = self.group.start(bringup.server(manifest, **parameters))

    def start_robot(
        self, contract: Path, environment: Mapping[str, str] | None = None, **parameters: Any
    ) -> None:
        """Start the robot's node. environment: variables besides those of a deployment."""
        process = bringup.robot(
            contract, namespace=self.namespace, parameters={"autostart": True, **parameters}
        )
        process = replace(process, environment={**process.environment, **(environment or {})})
        self.robot = self.group.start(process)

    def add_node(self, name: str) -> Node:
        """Create another node in the root namespace; it spins and ends with the rig's own node."""
        node = rclpy.create_node(name, context=self._context)
        self._nodes.append(node)
        self._executor.add_node(node)
        return node

    def move_camera(self, node: Node | None) -> None:
        """Publish the camera from another node from now on; None: from none."""

        def move() -> None:
            if self._camera is not None:
                self._camera_node.destroy_publisher(self._camera)
            self._camera, self._camera_node = None, node or self.node
            if node is not None:
                topic = f"{self.namespace}/camera/image_raw"
                self._camera = node.create_publisher(Image, topic, SENSOR_QOS)

        self.run_on_executor(move)

    def subscribe(self, kind: type, topic: str, take: Callable[[Any], None], qos: QoSProfile) -> None:
        def receive(message: Any) -> None:
            take(message)
            self._notify()

        self.node.create_subscription(kind, topic, receive, qos)

    def run_on_executor(self, function: Callable[[], Any]) -> Any:
        """Call a function on the executor's thread, and return what it returns."""
        task = self._executor.create_task(function)
        self.wait_for(task.done, "the executor's thread")
        return task.result()

    def destroy_subscription(self, subscription: Subscription) -> None:
        """Destroy a subscription on the executor's thread: on another, the wait set may just take it."""
        self._executor.create_task(self.node.destroy_subscription, subscription)

    def wait_for(self, condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> None:
        end_s = time.monotonic() + deadline_s
        with self._changed:
            while not condition():
                left_s = end_s - time.monotonic()
                assert left_s > 0, f"{what}: not within {deadline_s} s; last state: {self.describe()}"
                self._changed.wait(min(left_s, 0.2))

    def send_until(
        self, send: Callable[[], Any], condition: Callable[[], Any], what: str, retry_s: float = RETRY_S
    ) -> None:
        """Send every `retry_s` until a condition holds: any message may be lost."""
        next_s = -math.inf

        def send_and_look() -> Any:
            nonlocal next_s
            if time.monotonic() >= next_s:
                next_s = time.monotonic() + retry_s
                send()
            return condition()

        self.wait_for(send_and_look, what)

    def publish_until(self, publisher: Any, message: Any, condition: Callable[[], Any], what: str) -> None:
        """Publish a message repeatedly: at depth 1, the server's own message may replace it."""

        def publish_and_look() -> Any:
            publisher.publish(message)
            return condition()

        self.wait_for(publish_and_look, what)

    def wait_for_state(self, name: str, after: int = 0) -> None:
        """Wait until a state message from index `after` on has a name."""
        self.wait_for(lambda: any(state.state_name == name for state in self.states[after:]), name)

    def wait_for_commands(self, count: int) -> None:
        """Wait for `count` more commands."""
        target = len(self.commands) + count
        self.wait_for(lambda: len(self.commands) >= target, f"{count} commands")

    def wait_for_executed(self, count: int) -> None:
        """Wait for `count` more control ticks."""
        target = len(self.executed) + count
        self.wait_for(lambda: len(self.executed) >= target, f"{count} ticks")

    def call(self, kind: Any, name: str, /, **request: Any) -> Any:
        """Call a service as a plain rclpy script would; relative names are in the robot's namespace.

        A server just discovered may answer before it knows the client, into nothing. What only reads is asked
        again; anything else waits for the answer to a client of the same node that was announced later.
        """
        path = self.node.resolve_service_name(name)
        if path not in self._clients:
            parameters = f"{path.rpartition('/')[0]}/get_parameters"
            self._clients[path] = (
                self.node.create_client(kind, path),
                self.node.create_client(GetParameters, parameters),
            )
        client, witness = self._clients[path]
        if kind is GetStatus:  # also answered while a policy is loaded, when nothing else is
            self._ask(witness, GetParameters.Request(), RETRY_S)
        if kind in READ_ONLY:
            return self._ask(client, kind.Request(**request), RETRY_S)
        self._ask(witness, GetParameters.Request(), RETRY_S)
        return self._ask(client, kind.Request(**request), math.inf)

    def _ask(self, client: Client, request: Any, retry_s: float) -> Any:
        assert client.wait_for_service(DEADLINE_S), f"no service {client.srv_name}"
        answers: list[Any] = []

        def answered(future: Any) -> None:
            answers.append(future)
            self._notify()

        def send() -> None:
            client.call_async(request).add_done_callback(answered)

        self.send_until(send, lambda: answers, f"answer from {client.srv_name}", retry_s)
        return answers[0].result()

    def open_session(
        self,
        server: str,
        *,
        joints: Sequence[str] = JOINTS,
        cameras: Sequence[str] = (FEATURE,),
        **changes: Any,
    ) -> OpenSession.Response:
        """Open a session as a robot of this rig's namespace would. changes: of the request."""
        offer: dict[str, Any] = {
            "client": f"{self.namespace}/test",
            "robot_namespace": self.namespace,
            "robot_type": "rig",
            "session_epoch": 1,
            "schema_version": 1,
            "action_names": list(joints),
            "state_names": list(joints),
            "image_features": list(cameras),
            "image_encodings": ["jpeg"] * len(cameras),
            "image_heights": [48] * len(cameras),
            "image_widths": [64] * len(cameras),
            "fps": 30.0,
        }
        return self.call(OpenSession, f"{server}/open_session", **{**offer, **changes})

    def trigger(self, name: str) -> Trigger.Response:
        return self.call(Trigger, f"remote_inference/{name}")

    def _start_controller(self) -> None:
        self._controller = self.node.create_subscription(
            Float64MultiArray, "commands", self._receive_command, DEEP_QOS
        )

    def describe(self) -> str:
        if not self.states:
            return "none"
        state = self.states[-1]
        stale = list(state.stale_sources)
        paused = f", {state.pause_cause}" if state.paused else ""
        return f"{state.state_name} ({state.cause}){paused}, stale {stale}, {len(self.commands)} commands"

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _spin(self) -> None:
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=0.1)

    def _receive_command(self, message: Float64MultiArray, info: dict[str, int | None]) -> None:
        self._on_command(message, info)
        self._notify()

    def _on_command(self, message: Float64MultiArray, info: dict[str, int | None]) -> None:
        self.commands.append((time.monotonic(), tuple(message.data)))
        if self.follows:
            self.positions = list(reversed(message.data))

    def _measure(self) -> JointState:
        return JointState(name=["gripper", *reversed(JOINTS)], position=[9.0, *reversed(self.positions)])

    def _publish_joints(self, stamp: Time) -> None:
        joints = self._measure()
        joints.header.stamp = stamp
        self._joints.publish(joints)

    def _publish_sensors(self) -> None:
        stamp = (self.node.get_clock().now() + Duration(seconds=self.clock_offset_s)).to_msg()
        self._publish_joints(stamp)
        image = Image(height=48, width=64, encoding="rgb8", step=192, data=array("B", bytes(48 * 192)))
        image.header.stamp = stamp
        if self._camera is not None:
            self._camera.publish(image)
