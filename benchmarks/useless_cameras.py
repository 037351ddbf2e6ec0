# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures what a robot that sends 16 useless 12-megapixel cameras at 20 Hz costs another robot.

Run `python benchmarks/useless_cameras.py [--cycles 200]` in the package's environment. The honest robot's
round trips alternate between quiet, beside the same messages sent to a bystander (what they cost on this
machine without a server), and beside the same messages sent to the server.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
import yaml
from builtin_interfaces.msg import Time
from capacity_robots import call
from rclpy.serialization import serialize_message
from rclpy.utilities import try_shutdown
from request_cycle_rig import (
    FPS,
    JOINTS,
    START_TIMEOUT_S,
    Case,
    Probe,
    camera_image,
    plain_node,
    write_deployment,
)
from rich.console import Console
from sensor_msgs.msg import CompressedImage

from remote_inference.base.exchange import SCHEMA_VERSION_MAX, Request
from remote_inference.base.limits import MAX_CAMERAS
from remote_inference.base.wire.arrays import bytes_field
from remote_inference.base.wire.images.encodings.jpeg import encode_jpeg
from remote_inference.base.wire.images.images import image_from_message
from remote_inference.base.wire.observation import observation_to_message
from remote_inference.base.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, OBSERVATION_TOPIC
from remote_inference.msg import ActionChunk, Observation, ServerStatus
from remote_inference.srv import GetStatus, OpenSession
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.process_group import ProcessGroup
from remote_inference.tools.tables import Table, print_table

SERVER = "/useless_cameras_server"
HONEST, GREEDY, BYSTANDER = "/honest_robot", "/greedy_robot", "/bystander"
HEIGHT, WIDTH = 3072, 4096
RATE_HZ = 20.0
ROUNDS = 5
PAUSE_S = 0.02
SETTLE_S = 1.0  # after the messages begin or end
STATE = np.zeros(len(JOINTS), np.float32)
SITUATIONS = ("quiet", "to a bystander", "to the server")


class HonestRobot(Probe):
    """Asks with its state only, and measures until its chunk."""

    def __init__(self) -> None:
        super().__init__("honest_robot", f"{HONEST}/{CHUNK_TOPIC}")
        self._publisher = self.node.create_publisher(
            Observation, f"{HONEST}/{OBSERVATION_TOPIC}", EXCHANGE_QOS
        )
        self.session_id = ""
        self._seq_id = 0

    def open(self, namespace: str, cameras: int) -> OpenSession.Response:
        """Ask for a session of a robot with cameras of untold size."""
        client = self.node.create_client(OpenSession, f"{SERVER}/open_session")
        offer = OpenSession.Request(
            client=namespace,  # each robot's node is called as its namespace
            robot_namespace=namespace,
            robot_type="benchmark",
            session_epoch=1,
            schema_version=SCHEMA_VERSION_MAX,
            action_names=list(JOINTS),
            state_names=list(JOINTS),
            image_features=[f"images.useless_{index}" for index in range(cameras)],
            image_encodings=["jpeg"] * cameras,
            image_heights=[0] * cameras,
            image_widths=[0] * cameras,
            fps=FPS,
        )
        reply = call(self._executor, client, offer)
        self.node.destroy_client(client)
        return reply

    def status(self) -> ServerStatus:
        """Return the server's status."""
        client = self.node.create_client(GetStatus, f"{SERVER}/get_status")
        status = call(self._executor, client, GetStatus.Request()).status
        self.node.destroy_client(client)
        return status

    def start(self) -> int:
        start_ns = time.monotonic_ns()
        self._seq_id += 1
        self._publisher.publish(make_request(self.session_id, self._seq_id, ()))
        return start_ns

    def is_answered_by(self, chunk: ActionChunk) -> bool:
        return bool(chunk.seq_id == self._seq_id)

    def repeat(self, times: int) -> list[float]:
        """Return round trips [ms]; one without an answer counts as the time waited for it."""
        durations_ms = []
        for _ in range(times):
            begin_s = time.monotonic()
            durations_ms.append(self.measure() or (time.monotonic() - begin_s) * 1e3)
            time.sleep(PAUSE_S)
        return durations_ms


def make_request(session_id: str, seq_id: int, images: Sequence[CompressedImage]) -> Observation:
    request = Request(session_id, 1, seq_id, 1, False, time.monotonic_ns(), "", 0)
    return observation_to_message(request, STATE, images, Time())


def send_images(connection: Connection, topic: str, data: bytes) -> None:
    """Be a process that publishes a message at RATE_HZ while told so."""
    rclpy.init()
    node = plain_node("greedy_robot")
    publisher = node.create_publisher(Observation, topic, EXCHANGE_QOS)
    connection.send(None)
    sending, due_s = False, 0.0
    while True:
        if connection.poll(max(0.0, due_s - time.monotonic()) if sending else None):
            told = connection.recv()
            if told is None:
                return
            sending, due_s = told, time.monotonic()
        else:
            publisher.publish(data)
            due_s += 1.0 / RATE_HZ


def receive_images(connection: Connection, topic: str) -> None:
    """Be a process that receives the messages and does nothing with them."""
    rclpy.init()
    node = plain_node("bystander")
    node.create_subscription(Observation, topic, lambda _: None, EXCHANGE_QOS, raw=True)
    connection.send(None)
    while not connection.poll():
        rclpy.spin_once(node, timeout_sec=0.1)


@contextmanager
def process(target: Any, *arguments: Any) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")  # rclpy does not survive a fork
    ours, theirs = context.Pipe()
    made = context.Process(target=target, args=(theirs, *arguments), daemon=True)
    made.start()
    theirs.close()
    ours.recv()
    try:
        yield ours
    finally:
        ours.send(None)
        made.join(START_TIMEOUT_S)


@dataclass(frozen=True)
class Scene:
    """What the useless cameras show."""

    name: str
    jpeg: bytes


def scenes() -> list[Scene]:
    picture = image_from_message(camera_image(HEIGHT, WIDTH))
    return [
        Scene("grey", encode_jpeg(np.full_like(picture, 90), 10)),
        Scene("a picture", encode_jpeg(picture, 90)),
    ]


def measure(robot: HonestRobot, scene: Scene, cycles: int) -> list[tuple[str, ...]]:
    """Return a row for each situation."""
    greedy = robot.open(GREEDY, MAX_CAMERAS)
    if not greedy.accepted:
        raise SystemExit(f"refused: {greedy.message}")
    image = CompressedImage(format="jpeg", data=bytes_field(scene.jpeg))
    data = serialize_message(make_request(greedy.session_id, 1, [image] * MAX_CAMERAS))
    errors = robot.status().errors
    durations_ms: dict[str, list[float]] = {situation: [] for situation in SITUATIONS}
    topics = [f"{namespace}/{OBSERVATION_TOPIC}" for namespace in (BYSTANDER, GREEDY)]
    with (
        process(receive_images, topics[0]),
        process(send_images, topics[0], data) as to_bystander,
        process(send_images, topics[1], data) as to_server,
    ):
        senders = dict(zip(SITUATIONS, (None, to_bystander, to_server), strict=True))
        for _ in range(ROUNDS):
            for situation, sender in senders.items():
                if sender:
                    sender.send(True)
                time.sleep(SETTLE_S)
                durations_ms[situation] += robot.repeat(cycles // ROUNDS)
                if sender:
                    sender.send(False)
                    time.sleep(SETTLE_S)
    status = robot.status()
    session = "open" if greedy.session_id in status.sessions else "ended"
    outcome = f"{status.errors - errors} refused, session {session}"
    size_mb = f"{len(data) / 1e6:.1f}"
    quantiles = {situation: np.quantile(durations_ms[situation], (0.5, 0.95)) for situation in SITUATIONS}
    return [
        (
            scene.name,
            size_mb,
            situation,
            *(f"{value:.2f}" for value in quantiles[situation]),
            f"{quantiles[situation][0] / quantiles['quiet'][0]:.2f}",
            f"{quantiles[situation][0] / quantiles['to a bystander'][0]:.2f}",
            outcome if situation == "to the server" else "",
        )
        for situation in SITUATIONS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cycles", type=int, default=200, help="round trips to measure per situation")
    arguments = parser.parse_args()
    load = f"{os.cpu_count()} processors, load average before the run: {os.getloadavg()[0]:.1f}"
    rclpy.init()
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory(prefix="useless_cameras_") as name:
        _, manifest = write_deployment(Path(name), Case(0))
        # By default the offer of more than eight cameras is refused: here the limits of a request must hold.
        content = yaml.safe_load(manifest.read_text())
        manifest.write_text(yaml.safe_dump({**content, "max_cameras": MAX_CAMERAS}))
        with ProcessGroup(Path(name) / "logs") as group:
            group.start(bringup.server(manifest, name=SERVER[1:]))
            robot = HonestRobot()
            robot.session_id = robot.open(HONEST, 0).session_id
            while robot.measure() is None:
                group.check()
            for scene in scenes():
                rows += measure(robot, scene, arguments.cycles)
            robot.close()
    try_shutdown()
    columns = ("images", "MB", "they go", "p50", "p95", "to quiet\np50", "to bystander\np50", "outcome")
    title = f"Round trip of the other robot beside {MAX_CAMERAS} useless cameras at {RATE_HZ:g} Hz [ms]"
    Console().print(load, highlight=False)
    print_table(Table(title, columns, rows, columns[1:2] + columns[3:-1]))


if __name__ == "__main__":
    main()
