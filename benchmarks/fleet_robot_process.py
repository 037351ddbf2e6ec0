# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A process of robots of fleet.py: each has the package's engine and a Zenoh session of its own."""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import zenoh
from builtin_interfaces.msg import Time
from fleet_robot import CONTRACT, JOINTS, FleetRobot, Record
from fleet_server import IMAGE_SHAPE
from fleet_zenoh import POLL_S, SERVICES, Attachments, Link, key, topic_key
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CompressedImage
from zenoh import CongestionControl, ConsolidationMode, QueryTarget
from zenoh.handlers import Callback

from remote_inference.base.exchange import Request, SessionOffer
from remote_inference.base.wire.arrays import bytes_field
from remote_inference.base.wire.chunk import chunk_from_bytes
from remote_inference.base.wire.images.encodings.jpeg import encode_jpeg
from remote_inference.base.wire.observation import observation_to_message
from remote_inference.base.wire.qos import CHUNK_TOPIC, OBSERVATION_TOPIC
from remote_inference.base.wire.session import offer_to_request, reply_from_response, status_from_response
from remote_inference.msg import ServerStatus
from remote_inference.srv import CloseSession, GetStatus, OpenSession

CALL_TIMEOUT_S = 2.0


@lru_cache(maxsize=64)
def read_status(data: bytes) -> tuple[str, tuple[str, ...], bool]:
    """Return instance, sessions and whether it accepts; many robots of a process hear the same."""
    status = deserialize_message(data, ServerStatus)
    return status.instance_id, tuple(status.sessions), status.accepting


class RobotEndpoints:
    """One robot's Zenoh session and endpoints."""

    def __init__(
        self,
        robot: FleetRobot,
        link: Link,
        servers: Sequence[str],
        put: Callable[[Callable[[int], None]], None],
    ) -> None:
        """put: lets the robots' thread call a function with the time at which it was put."""
        self.zenoh = link.open(robot.namespace.strip("/"), robot.index % len(link.ports))
        self.attachments = Attachments()
        self.publisher = self.zenoh.declare_publisher(
            topic_key(robot.namespace, OBSERVATION_TOPIC, "Observation"),
            congestion_control=CongestionControl.DROP,
        )

        def take_chunk(sample: zenoh.Sample) -> None:
            data = sample.payload.to_bytes()
            put(lambda now_ns: robot.take_chunk(chunk_from_bytes(data), now_ns))

        def take_status(server: str, sample: zenoh.Sample) -> None:
            told = read_status(sample.payload.to_bytes())
            put(lambda now_ns: robot.take_server_status(server, *told, now_ns))

        def take_matching(status: zenoh.MatchingStatus) -> None:
            matching = status.matching
            put(lambda now_ns: robot.take_presence(matching, now_ns))

        self._kept: list[Any] = [
            self.publisher.declare_matching_listener(Callback(take_matching, indirect=False)),
            self.zenoh.declare_subscriber(
                topic_key(robot.namespace, CHUNK_TOPIC, "ActionChunk"), Callback(take_chunk, indirect=False)
            ),
        ]
        for server in servers:
            status_key = topic_key(server, "status", "ServerStatus")
            listener = Callback(partial(take_status, server), indirect=False)
            self._kept.append(self.zenoh.declare_subscriber(status_key, listener))


class RobotGroup:
    """Some robots on one thread: the `Network` of each."""

    def __init__(self, link: Link, robots: Sequence[tuple[int, tuple[str, ...]]]) -> None:
        """robots: the index and the servers of each."""
        self._inbox: queue.SimpleQueue[tuple[int, Callable[[int], None]]] = queue.SimpleQueue()
        self._images = [_picture() for _ in CONTRACT.images]

        self._robots = [FleetRobot(index, servers, self) for index, servers in robots]
        self._endpoints = {
            robot.index: RobotEndpoints(robot, link, servers, self._put)
            for robot, (_, servers) in zip(self._robots, robots, strict=True)
        }

    def run(self, connection: Connection) -> list[Record]:
        """Let the robots live, begun within two seconds, until told to end; return what happened to them."""
        start_ns, order = time.monotonic_ns(), itertools.count()
        spread_ns = 2_000_000_000 // len(self._robots)
        due = [(start_ns + at * spread_ns, next(order), robot) for at, robot in enumerate(self._robots)]
        poll_ns = start_ns
        while True:
            now_ns = time.monotonic_ns()
            if now_ns >= poll_ns:
                if connection.poll():
                    return [robot.record for robot in self._robots]
                poll_ns = now_ns + int(POLL_S * 1e9)
            if due[0][0] <= now_ns:
                _, _, robot = heapq.heappop(due)
                heapq.heappush(due, (now_ns + robot.step(now_ns), next(order), robot))
                continue
            try:
                put_ns, take = self._inbox.get(timeout=min(POLL_S, (due[0][0] - now_ns) / 1e9))
                take(put_ns)
            except queue.Empty:
                pass

    def _put(self, take: Callable[[int], None]) -> None:
        self._inbox.put((time.monotonic_ns(), take))

    # -- the network ---------------------------------------------------------------------------------------

    def get_status(self, robot: FleetRobot, server: str) -> None:
        def take(response: GetStatus.Response | None, now_ns: int) -> None:
            reply = None if response is None else status_from_response(response)
            robot.take_status_reply(server, reply, now_ns)

        self._call(robot, server, "get_status", GetStatus.Request(), take)

    def open_session(self, robot: FleetRobot, server: str, offer: SessionOffer) -> None:
        def take(response: OpenSession.Response | None, now_ns: int) -> None:
            reply = None if response is None else reply_from_response(response)
            robot.take_session_reply(server, offer.session_epoch, reply, now_ns)

        self._call(robot, server, "open_session", offer_to_request(offer), take)

    def close_session(self, robot: FleetRobot, server: str, session_id: str, token: str) -> None:
        request = CloseSession.Request(session_id=session_id, session_token=token)
        self._call(robot, server, "close_session", request, lambda *_: None)

    def publish(self, robot: FleetRobot, _: str, request: Request) -> None:
        state = np.zeros(len(JOINTS), np.float32)
        message = observation_to_message(request, state, self._images, Time())
        ends = self._endpoints[robot.index]
        ends.publisher.put(serialize_message(message), attachment=ends.attachments.next())

    def _call(
        self,
        robot: FleetRobot,
        server: str,
        service: str,
        request: Any,
        take: Callable[[Any, int], None],
    ) -> None:
        """Call a service; `take` gets the response, or None when there is none in time.

        The response counts when it comes, as in rmw_zenoh. Zenoh would keep it until the call's end, which is
        told at the timeout only, now and then.
        """
        ends, service_type = self._endpoints[robot.index], SERVICES[service]
        answered = threading.Event()

        def keep(reply: zenoh.Reply) -> None:
            if reply.ok is None or answered.is_set():
                return
            answered.set()
            response = deserialize_message(reply.ok.payload.to_bytes(), service_type.Response)
            self._put(lambda now_ns: take(response, now_ns))

        def end() -> None:
            if not answered.is_set():
                self._put(lambda now_ns: take(None, now_ns))

        ends.zenoh.get(
            key(f"{server}/{service}", "srv", service_type.__name__),
            Callback(keep, end, indirect=False),
            target=QueryTarget.ALL_COMPLETE,
            consolidation=ConsolidationMode.NONE,
            timeout=CALL_TIMEOUT_S,
            payload=serialize_message(request),
            attachment=ends.attachments.next(),
        )


def _picture() -> CompressedImage:
    """Return a noisy picture, as a camera's."""
    height, width, _ = IMAGE_SHAPE
    ramp = np.linspace(40, 200, height * width * 3).reshape(IMAGE_SHAPE)
    noise = np.random.default_rng(0).normal(0.0, 4.0, IMAGE_SHAPE)
    pixels = np.clip(ramp + noise, 0, 255).astype(np.uint8)
    return CompressedImage(format="jpeg", data=bytes_field(encode_jpeg(pixels, 90)))


def run_robots(connection: Connection, link: Link, robots: Sequence[tuple[int, tuple[str, ...]]]) -> None:
    """Be a process of robots: connect, report, live, report."""
    group = RobotGroup(link, robots)
    connection.send(None)
    connection.recv()
    records = group.run(connection)
    connection.send(records)
