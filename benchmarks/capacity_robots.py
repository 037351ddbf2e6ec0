# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robots of capacity.py: plain rclpy nodes, many per process, that run the real exchange."""

from __future__ import annotations

import multiprocessing
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import rclpy
from rclpy.client import Client
from rclpy.executors import Executor
from rclpy.node import Node
from request_cycle_rig import HEIGHT, JOINTS, START_TIMEOUT_S, WIDTH, camera_image, plain_node
from sensor_msgs.msg import CompressedImage
from typing_extensions import Self

from remote_inference.base.exchange import SCHEMA_VERSION_MAX, ChunkStatus
from remote_inference.base.nodes.executors import make_executor
from remote_inference.base.wire.arrays import bytes_field
from remote_inference.base.wire.images.encodings.jpeg import encode_jpeg
from remote_inference.base.wire.images.images import image_from_message
from remote_inference.base.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, OBSERVATION_TOPIC
from remote_inference.msg import ActionChunk, Observation
from remote_inference.srv import CloseSession, GetStatus, OpenSession

SERVER = "/capacity_server"
QUALITY = 90
PROCESSES = 4  # of robots, at most
ANSWER_TIMEOUT_S = 5.0  # the robot's default
CALL_TIMEOUT_S = 2.0


@dataclass
class Record:
    """One robot's record of the window, with one entry per answer in each list."""

    session_id: str
    arrival_s: list[float] = field(default_factory=list)  # monotonic, of this machine
    round_trip_ms: list[float] = field(default_factory=list)
    queue_wait_ms: list[float] = field(default_factory=list)
    inference_ms: list[float] = field(default_factory=list)
    lost: int = 0  # requests without an answer in time
    errors: int = 0  # answers that are no chunk


@dataclass(frozen=True)
class Demand:
    """The requests of each robot: one every `period_s`, never before the last one was answered."""

    period_s: float  # 0: at once
    features: Sequence[str]  # the policy's cameras


def jpeg_images(count: int) -> list[CompressedImage]:
    """Encode one camera image for all."""
    data = bytes_field(encode_jpeg(image_from_message(camera_image()), QUALITY))
    return [CompressedImage(format="jpeg", data=data) for _ in range(count)]


class Robot:
    """One robot's half of a session, which asks on command and keeps a record."""

    def __init__(self, node: Node, index: int, demand: Demand, images: list[CompressedImage]) -> None:
        self._node = node
        self._demand = demand
        self._namespace = f"/capacity_robot_{index}"
        self._chunk_topic = f"{self._namespace}/{CHUNK_TOPIC}"
        self._publisher = node.create_publisher(
            Observation, f"{self._namespace}/{OBSERVATION_TOPIC}", EXCHANGE_QOS
        )
        node.create_subscription(ActionChunk, self._chunk_topic, self._take, EXCHANGE_QOS)
        self._message = Observation(
            schema_version=SCHEMA_VERSION_MAX,
            session_epoch=1,
            episode_id=1,
            state=array("f", [0.1] * len(JOINTS)),
            images=images,
        )
        self._sent_s = 0.0
        self._waiting = False
        self._window_s = (0.0, 0.0)
        self.due_s = 0.0

    def offer(self) -> OpenSession.Request:
        count = len(self._demand.features)
        return OpenSession.Request(
            client=self._node.get_fully_qualified_name(),
            client_instance_id=self._namespace,
            robot_namespace=self._namespace,
            robot_type="benchmark",
            session_epoch=1,
            schema_version=SCHEMA_VERSION_MAX,
            action_names=list(JOINTS),
            state_names=list(JOINTS),
            image_features=list(self._demand.features),
            image_encodings=["jpeg"] * count,
            image_heights=[HEIGHT] * count,
            image_widths=[WIDTH] * count,
            fps=30.0,
        )

    def admit(self, reply: OpenSession.Response) -> None:
        if not reply.accepted:
            raise SystemExit(f"{self._namespace}: refused: {reply.message}")
        self._message.session_id = reply.session_id
        self.record = Record(reply.session_id)
        self.farewell = CloseSession.Request(session_id=reply.session_id, session_token=reply.session_token)

    def is_connected(self) -> bool:
        return (
            self._publisher.get_subscription_count() > 0
            and self._node.count_publishers(self._chunk_topic) > 0
        )

    def begin(self, first_s: float, window_s: tuple[float, float]) -> None:
        """Ask from `first_s` on; record what arrives within the window [monotonic s]."""
        self.due_s = first_s
        self._window_s = window_s

    def ask(self, now_s: float) -> None:
        """Send a request if one is due; give up a request that was not answered in time."""
        if self._waiting:
            self.record.lost += 1
        self._message.seq_id += 1
        self._message.client_mono_ns = time.monotonic_ns()
        self._waiting, self._sent_s, self.due_s = True, now_s, now_s + ANSWER_TIMEOUT_S
        self._publisher.publish(self._message)

    def _take(self, chunk: ActionChunk) -> None:
        if not self._waiting or chunk.seq_id != self._message.seq_id:
            return
        now_s = time.monotonic()
        self._waiting = False
        self.due_s = max(now_s, self._sent_s + self._demand.period_s)
        if self._window_s[0] <= now_s < self._window_s[1]:
            self.record.errors += chunk.status != ChunkStatus.OK
            self.record.arrival_s.append(now_s)
            self.record.round_trip_ms.append((time.monotonic_ns() - chunk.client_mono_ns) / 1e6)
            self.record.queue_wait_ms.append(chunk.queue_wait_ms)
            self.record.inference_ms.append(chunk.inference_ms)


def run_robots(connection: Connection, indices: Sequence[int], of: int, demand: Demand) -> None:
    """Be a process of robots: open sessions, report, ask in the window told, report, close.

    of: robots of all processes together, over whose number the first requests are spread.
    """
    rclpy.init()
    node = plain_node(f"capacity_robots_{indices[0]}")
    executor, _ = make_executor("events")
    executor.add_node(node)
    images = jpeg_images(len(demand.features))
    robots = [Robot(node, index, demand, images) for index in indices]
    opening = node.create_client(OpenSession, f"{SERVER}/open_session")
    closing = node.create_client(CloseSession, f"{SERVER}/close_session")
    spin_until(executor, lambda: opening.service_is_ready() and closing.service_is_ready(), "the services")
    for robot in robots:
        robot.admit(call(executor, opening, robot.offer()))
    spin_until(executor, lambda: all(robot.is_connected() for robot in robots), "matched endpoints")
    connection.send(None)
    start_s, begin_s, end_s = connection.recv()
    for robot, index in zip(robots, indices, strict=True):
        robot.begin(start_s + demand.period_s * index / of, (begin_s, end_s))
    while (now_s := time.monotonic()) < end_s:
        for robot in robots:
            if robot.due_s <= now_s:
                robot.ask(now_s)
        next_s = min(end_s, *(robot.due_s for robot in robots))
        executor.spin_once(timeout_sec=max(0.0, next_s - time.monotonic()))
    connection.send([robot.record for robot in robots])
    connection.recv()
    for robot in robots:
        call(executor, closing, robot.farewell)
    rclpy.shutdown()


def spin_until(executor: Executor, condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + START_TIMEOUT_S
    while not condition():
        if time.monotonic() > end_s:
            raise SystemExit(f"{what}: not within {START_TIMEOUT_S:g} s")
        executor.spin_once(timeout_sec=0.1)


def call(executor: Executor, client: Client, request: Any) -> Any:
    """Call a service until it answers: an answer sent before the endpoints matched is lost."""
    end_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end_s:
        future = client.call_async(request)
        executor.spin_until_future_complete(future, timeout_sec=CALL_TIMEOUT_S)
        if future.done():
            return future.result()
    raise SystemExit(f"{client.srv_name}: no answer within {START_TIMEOUT_S:g} s")


class Fleet:
    """Robots in a few processes, connected and silent; a context manager that ends them."""

    def __init__(self, count: int, demand: Demand) -> None:
        context = multiprocessing.get_context("spawn")  # rclpy does not survive a fork
        self._connections: list[Connection] = []
        self._processes = []
        for first in range(min(count, PROCESSES)):
            ours, theirs = context.Pipe()
            indices = range(first, count, PROCESSES)
            process = context.Process(target=run_robots, args=(theirs, indices, count, demand), daemon=True)
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)
        for connection in self._connections:
            connection.recv()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.send(None)
        for process in self._processes:
            process.join(START_TIMEOUT_S)

    def ask(self, start_s: float, begin_s: float, end_s: float) -> None:
        """Make the robots ask from `start_s` to `end_s` and record from `begin_s` on [monotonic s]."""
        for connection in self._connections:
            connection.send((start_s, begin_s, end_s))

    def records(self) -> list[Record]:
        """Wait for the window's end; return each robot's record."""
        return [record for connection in self._connections for record in connection.recv()]


def open_sessions(node: Node) -> set[str]:
    """Ask the server for the sessions it holds."""
    executor, _ = make_executor("events")
    executor.add_node(node)
    client = node.create_client(GetStatus, f"{SERVER}/get_status")
    spin_until(executor, client.service_is_ready, "the server's status")
    sessions = set(call(executor, client, GetStatus.Request()).status.sessions)
    executor.shutdown()
    return sessions
