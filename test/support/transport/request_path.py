# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The request cycle's real bytes over Zenoh: a robot and a server, their routers, and a bad link between."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import zenoh
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CompressedImage
from zenoh import CongestionControl

from remote_inference.msg import ActionChunk, Observation
from support.free_ports import free_port
from support.transport.engine import DEADLINE_S, WAIT, endpoints, peer, put_until, router
from support.transport.impaired_link import ImpairedLink

OBSERVATION_KEY = "0/robot_1/remote_inference/observation/remote_inference::msg::dds_::Observation_/RIHS01_0"
CHUNK_KEY = "0/robot_1/remote_inference/chunk/remote_inference::msg::dds_::ActionChunk_/RIHS01_0"
EXECUTED_KEY = "0/robot_1/remote_inference/executed/remote_inference::msg::dds_::ExecutedAction_/RIHS01_0"
HORIZON, ACTIONS = 50, 7
SEND_BUFFER_BYTES = (
    16384  # of the dialling socket: the bytes wait in Zenoh's queues, as on a link of long standing
)
# A session gives its router 1 ms to take a message, and on a busy computer that may be too short: the link is
# meant to lose messages here, not the way to the router.
UNHURRIED = {WAIT: "1000000"}  # us


def observation(image_bytes: int, seq_id: int) -> bytes:
    """Serialize an observation with one camera image of so many random bytes."""
    pixels = np.random.default_rng(seq_id).bytes(image_bytes)
    image = CompressedImage(format="jpeg", data=array("B", pixels))
    state = array("f", [0.5] * ACTIONS)
    return serialize_message(Observation(session_id="s", seq_id=seq_id, state=state, images=[image]))


def answer(request: bytes) -> bytes:
    """Serialize the chunk that answers a serialized observation; the policy takes no time."""
    seq_id = deserialize_message(request, Observation).seq_id
    rows = array("f", [0.25] * HORIZON * ACTIONS)
    chunk = ActionChunk(
        session_id="s", seq_id=seq_id, horizon=HORIZON, action_dim=ACTIONS, chunk_model=rows, chunk_robot=rows
    )
    return serialize_message(chunk)


class RequestPath:
    """One robot's requests, one at a time, answered by one server."""

    def __init__(self, link: ImpairedLink, robot: zenoh.Session, server: zenoh.Session) -> None:
        self.link, self.robot, self.server = link, robot, server
        self.chunks: dict[int, ActionChunk] = {}
        self.requests: list[bytes] = []
        self._arrived = threading.Condition()
        drop = CongestionControl.DROP
        self._publisher = robot.declare_publisher(OBSERVATION_KEY, congestion_control=drop)
        self._answers = server.declare_publisher(CHUNK_KEY, congestion_control=drop)
        self._subscribers = [
            server.declare_subscriber(OBSERVATION_KEY, self._serve),
            robot.declare_subscriber(CHUNK_KEY, self._receive),
        ]
        small = observation(100, 0)
        put_until(lambda: self._publisher.put(small), lambda: self.chunks, "the first answer")

    def request(self, serialized: bytes, seq_id: int, timeout_s: float = DEADLINE_S) -> float | None:
        """Publish one observation; return the time to its chunk [s], or None after the timeout."""
        begin_s = time.monotonic()
        self._publisher.put(serialized)
        with self._arrived:
            arrived = self._arrived.wait_for(lambda: seq_id in self.chunks, timeout_s)
        return time.monotonic() - begin_s if arrived else None

    def publish(self, serialized: bytes) -> None:
        """Publish one observation and do not wait."""
        self._publisher.put(serialized)

    def close(self) -> None:
        for subscriber in self._subscribers:
            subscriber.undeclare()

    def _serve(self, sample: zenoh.Sample) -> None:
        request = sample.payload.to_bytes()
        self.requests.append(request)
        self._answers.put(answer(request))

    def _receive(self, sample: zenoh.Sample) -> None:
        chunk = deserialize_message(sample.payload.to_bytes(), ActionChunk)
        with self._arrived:
            self.chunks[chunk.seq_id] = chunk
            self._arrived.notify_all()


@contextmanager
def request_path(
    *,
    delay_s: float = 0.0,
    jitter_s: float = 0.0,
    bandwidth_bps: float = float("inf"),
    router_settings: Mapping[str, str] | None = None,
) -> Iterator[RequestPath]:
    """Open a robot with its router, a server with its router, and a link between the routers.

    router_settings: JSON5 by key, besides those of the file.
    """
    settings = router_settings or {}
    robot_port, server_port = free_port(), free_port()
    with (
        router(server_port, **settings),
        ImpairedLink(server_port, delay_s=delay_s, jitter_s=jitter_s, bandwidth_bps=bandwidth_bps) as link,
    ):
        dialled = endpoints(link.port).replace('"]', f'#so_sndbuf={SEND_BUFFER_BYTES}"]')
        with (
            router(robot_port, **{**settings, "connect/endpoints": dialled}),
            peer(robot_port, **UNHURRIED) as robot,
            peer(server_port, **UNHURRIED, **{"scouting/gossip/autoconnect": "{}"}) as server,
        ):
            path = RequestPath(link, robot, server)
            yield path
            path.close()
