# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The bytes on the wire do not change, so that robots and servers of different releases work together.

A failure means that an interface, or the code that fills it, changed. If the change is intended, write the
files anew with `python test/base/wire/test_golden_messages.py`, and raise SCHEMA_VERSION_MAX when an older
release would misread them.
"""

from __future__ import annotations

from pathlib import Path

import msgpack
import numpy as np
import pytest
from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message, serialize_message
from rosidl_parser.definition import AbstractSequence, AbstractString, BasicType
from sensor_msgs.msg import CompressedImage, Image

from remote_inference.base.exchange import Chunk, ChunkStatus, Request
from remote_inference.base.wire.arrays import bytes_field
from remote_inference.base.wire.chunk import chunk_to_message
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.base.wire.observation import SensedStep, observation_to_message

GOLDEN = Path(__file__).parent / "golden"
STAMP = Time(sec=1700000000, nanosec=123456789)


def encoded(data: bytes) -> CompressedImage:
    return CompressedImage(format="jpeg", data=bytes_field(data))


def raw_image(first: int) -> Image:
    image = image_to_message(np.arange(first, first + 18, dtype=np.uint8).reshape(2, 3, 3))
    image.is_bigendian = 0
    return image


def observation():
    """Every field has a value of its own. The image is no real JPEG, whose bytes depend on the library."""
    request = Request(
        session_id="session-1",
        session_epoch=2,
        seq_id=3,
        episode_id=4,
        episode_start=True,
        client_mono_ns=5_000_000_006,
        task="pick up the red cube",
        inference_delay_steps=7,
        prefix_model=np.array([[0.5, 1.5], [2.5, 3.5]], np.float32),
        prefix_robot=np.array([[-0.5, -1.5], [-2.5, -3.5]], np.float32),
        capture_skew_s=0.0625,
        queue_s=1.25,
    )
    images = [encoded(b"front camera"), raw_image(0)]
    past = [
        SensedStep(np.array([1.25, -1.75, 9.0], np.float32), [encoded(b"front before"), raw_image(1)]),
        SensedStep(np.array([2.25, -2.75, 10.0], np.float32), images),
    ]
    state = np.array([0.25, -0.75, 8.0], np.float32)
    message = observation_to_message(request, state, images, STAMP, past)
    message.extras = bytes_field(msgpack.packb({"note": "golden"}))
    return message


def chunk():
    """Every field has a value of its own."""
    return chunk_to_message(
        Chunk(
            session_id="session-1",
            session_epoch=2,
            seq_id=3,
            episode_id=4,
            client_mono_ns=5_000_000_006,
            status=ChunkStatus.DRAINING,
            message="moving on",
            model=np.array([[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]], np.float32),
            robot=np.array([[-0.5, -1.5], [-2.5, -3.5], [-4.5, -5.5]], np.float32),
            queue_wait_ms=1.25,
            inference_ms=20.5,
            superseded_seqs=8,
            server_load=0.75,
            policy_version="sha256:0123",
        ),
        STAMP,
    )


MESSAGES = {"observation.bin": observation, "action_chunk.bin": chunk}


SIZES = {"boolean": 1, "octet": 1, "uint8": 1, "uint16": 2, "int32": 4, "uint32": 4, "float": 4}
SIZES |= {"int64": 8, "uint64": 8, "double": 8}


def significant(message, start: int = 0) -> tuple[list[range], int]:
    """Return the ranges of a message's CDR bytes that hold values, counted after the header, and their end.

    The padding between aligned values holds arbitrary bytes.
    """
    ranges = []

    def take(size: int, alignment: int) -> None:
        nonlocal start
        start += -start % alignment
        ranges.append(range(start, start + size))
        start += size

    def walk(value, kind) -> None:
        nonlocal start
        if isinstance(kind, BasicType):
            take(SIZES[kind.typename], SIZES[kind.typename])
        elif isinstance(kind, AbstractString):
            take(4, 4)
            take(len(value.encode()) + 1, 1)
        elif isinstance(kind, AbstractSequence):
            take(4, 4)
            for item in value:
                walk(item, kind.value_type)
        else:
            inner, start = significant(value, start)
            ranges.extend(inner)

    for name, kind in zip(message.get_fields_and_field_types(), message.SLOT_TYPES, strict=True):
        walk(getattr(message, name), kind)
    return ranges, start


def serialize(message) -> bytes:
    """Serialize with zeros between the values."""
    data = bytes(serialize_message(message))
    clean = bytearray(len(data))
    clean[:4] = data[:4]
    for values in significant(message)[0]:
        where = slice(4 + values.start, 4 + values.stop)
        clean[where] = data[where]
    return bytes(clean)


@pytest.mark.parametrize("name", MESSAGES)
def test_todays_bytes_are_the_stored_bytes(name):
    assert serialize(MESSAGES[name]()) == (GOLDEN / name).read_bytes()


@pytest.mark.parametrize("name", MESSAGES)
def test_stored_bytes_read_as_todays_message(name):
    message = MESSAGES[name]()
    assert deserialize_message((GOLDEN / name).read_bytes(), type(message)) == message


def write_golden_files() -> None:
    for name, make in MESSAGES.items():
        (GOLDEN / name).write_bytes(serialize(make()))


if __name__ == "__main__":
    write_golden_files()
