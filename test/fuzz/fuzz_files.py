# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What lies on a disk or comes over HTTP: captures, bags and the health port."""

from __future__ import annotations

import errno
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import numpy as np
from fuzz_target import Target, scratch_folder
from fuzz_wire import RGB
from mutation import spoil_bytes, spoil_text
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage, JointState
from std_msgs.msg import Header

from remote_inference.bags.checks.repair import repair
from remote_inference.bags.checks.verification import verify
from remote_inference.bags.provenance.page.page_reader import make_thumbnail
from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import BagError, BagTopic
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.base.exchange import Chunk
from remote_inference.base.wire.arrays import bytes_field
from remote_inference.base.wire.images.encodings.jpeg import encode_jpeg
from remote_inference.server.captures.captures import Capture, CaptureError, CaptureRing, load_capture
from remote_inference.server.monitoring.health import HealthServer
from remote_inference.server.monitoring.snapshot import ServerSnapshot
from support.builders import make_offer
from support.free_ports import free_port

ANSWER_DEADLINE_S = 10.0


def _captures() -> list[bytes]:
    rows = np.zeros((3, 2), np.float32)
    offer = make_offer()
    chunk = Chunk("s", 1, 2, 3, 4, model=rows, robot=rows, policy_version="f1")
    with tempfile.TemporaryDirectory() as folder:
        capture = Capture(offer, b"bytes", chunk.model, chunk.robot, "f1", chunk.seq_id, 1)
        return [CaptureRing(Path(folder), 1).put(capture).read_bytes()]


def _read_capture(data: bytes) -> None:
    path = scratch_folder() / "0.capture"
    path.write_bytes(data)
    load_capture(path)


@cache
def _bag() -> Path:
    """Write a short bag once and return its folder."""
    path = scratch_folder() / "bag"
    with BagWriter(path, [BagTopic("/joint_states", "sensor_msgs/msg/JointState")], contract="fps: 1") as bag:
        for stamp_ns in (1, 2):
            message = JointState(header=Header(frame_id="base"), name=["a"], position=[0.5])
            bag.write("/joint_states", stamp_ns, serialize_message(message))
    return path


def _seed_of_bag(name: str) -> list[bytes]:
    return [next(_bag().glob(name)).read_bytes()]


def _read_bag(name: str) -> Callable[[bytes], None]:
    """Return what puts bytes in the place of one of a bag's files, and reads the bag through."""

    def run(data: bytes) -> None:
        path = scratch_folder() / f"spoiled_{Path(name).suffix[1:]}"
        if not path.exists():
            shutil.copytree(_bag(), path)
        next(path.glob(name)).write_bytes(data)
        with BagReader(path) as bag:
            for _ in bag.messages():
                pass

    return run


def _judge_bag(name: str) -> Callable[[bytes], None]:
    """Return what puts bytes in the place of one of a bag's files, verifies the bag and repairs it."""

    def run(data: bytes) -> None:
        path, out = scratch_folder() / f"judged_{Path(name).suffix[1:]}", scratch_folder() / "repaired"
        if not path.exists():
            shutil.copytree(_bag(), path)
        next(path.glob(name)).write_bytes(data)
        shutil.rmtree(out, ignore_errors=True)
        verify(path)
        if repair(path, out).is_needed:
            verify(out)

    return run


def _show_jpeg(data: bytes) -> None:
    make_thumbnail(CompressedImage(format="jpeg", data=bytes_field(data)))


class _HealthPort:
    """A health server, and what sends it bytes."""

    def __init__(self) -> None:
        self._port = free_port()
        snapshot = ServerSnapshot("/policy_server", "id", "active", time.monotonic(), accepting=True)
        self._server = HealthServer(self._port, lambda: snapshot, lambda _: (b"", "text/plain"))
        self._asked = 0

    def send(self, data: bytes) -> None:
        """Send bytes and read what comes until the server hangs up; ask it now and then how it is."""
        self._exchange(data)
        self._asked += 1
        if self._asked % 50 == 0:
            answer = self._exchange(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert b" 200 " in answer[:20], f"found {answer[:80]!r}, expected an answer 200"

    def _exchange(self, data: bytes) -> bytes:
        answer = b""
        with socket.create_connection(("127.0.0.1", self._port), ANSWER_DEADLINE_S) as connection:
            with _hanging_up():
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                while part := connection.recv(65536):
                    answer += part
        return answer


@contextmanager
def _hanging_up() -> Iterator[None]:
    """Allow the server to hang up before it has read everything."""
    try:
        yield
    except ConnectionError:
        pass
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise


@cache
def _health_port() -> _HealthPort:
    return _HealthPort()


HTTP = (
    b"GET /status.json?x=1 HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
    b"POST /healthz HTTP/1.1\r\nContent-Length: 4\r\nConnection: close\r\n\r\nabcd",
    b"HEAD / HTTP/1.0\r\n\r\n",
)

TARGETS = (
    Target("capture", _read_capture, _captures, spoil_bytes, (CaptureError,), 3, tempfile.gettempdir()),
    Target(
        "bag_mcap",
        _read_bag("*.mcap"),
        lambda: _seed_of_bag("*.mcap"),
        spoil_bytes,
        (BagError,),
        0.3,
        tempfile.gettempdir(),
    ),
    Target(
        "bag_metadata",
        _read_bag("metadata.yaml"),
        lambda: _seed_of_bag("metadata.yaml"),
        spoil_text,
        (BagError,),
        0.3,
        tempfile.gettempdir(),
    ),
    Target(
        "bag_judged",
        _judge_bag("*.mcap"),
        lambda: _seed_of_bag("*.mcap"),
        spoil_bytes,
        (BagError,),
        0.3,
        tempfile.gettempdir(),
    ),
    Target(
        "bag_metadata_judged",
        _judge_bag("metadata.yaml"),
        lambda: _seed_of_bag("metadata.yaml"),
        spoil_text,
        (BagError,),
        0.3,
        tempfile.gettempdir(),
    ),
    Target("bag_jpeg", _show_jpeg, lambda: [encode_jpeg(RGB, 90)], spoil_bytes, (), 4),
    Target("health_http", lambda data: _health_port().send(data), lambda: [*HTTP], spoil_text, (), 0.5),
)
