# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""openpi's frames: byte for byte those of openpi-client, and read from strangers within limits."""

from __future__ import annotations

import struct

import msgpack
import numpy as np
import pytest

from remote_inference.base.wire.arrays import WireError
from remote_inference.server.frameworks.openpi import MAX_DEPTH, MAX_VALUES, pack, unpack, unpack_map

# What openpi-client 0.1.2 writes for each value (numpy 2.4, msgpack 1.2).
FRAMES = {
    "chunk": (
        {"actions": np.array([[0.5, -1.0], [2.0, 0.0]], np.float32), "server_timing": {"infer_ms": 12.5}},
        "82a7616374696f6e7384c40b5f5f6e6461727261795f5fc3c40464617461c4100000003f000080bf0000004000000000c405"
        "6474797065a33c6634c4057368617065920202ad7365727665725f74696d696e6781a8696e6665725f6d73cb402900000000"
        "0000",
    ),
    "transposed": (
        np.arange(6, dtype=np.uint8).reshape(2, 3).T,
        "84c40b5f5f6e6461727261795f5fc3c40464617461c406000301040205c4056474797065a37c7531c4057368617065920302",
    ),
    "numbers": (
        [np.float32(0.5), np.int64(-3), np.bool_(True), np.float64(0.25)],
        "9483c40d5f5f6e7067656e657269635f5fc3c40464617461cb3fe0000000000000c4056474797065a33c663483c40d5f5f6e"
        "7067656e657269635f5fc3c40464617461fdc4056474797065a33c693883c40d5f5f6e7067656e657269635f5fc3c4046461"
        "7461c3c4056474797065a37c6231cb3fd0000000000000",
    ),
    "array of no dimension": (
        np.array(7, np.int16),
        "84c40b5f5f6e6461727261795f5fc3c40464617461c4020700c4056474797065a33c6932c405736861706590",
    ),
    "empty array": (
        np.empty((0, 3), np.float64),
        "84c40b5f5f6e6461727261795f5fc3c40464617461c400c4056474797065a33c6638c4057368617065920003",
    ),
    "plain values": (
        {"prompt": "greif den Würfel", "n": None, "b": b"\x00\xff", "t": [True, 1, -2, 1.5]},
        "84a670726f6d7074b167726569662064656e2057c3bc7266656ca16ec0a162c40200ffa17494c301fecb3ff8000000000000",
    ),
}


def array_map(**changes: object) -> dict[bytes, object]:
    """Return the map that stands for an array `[2]` of float32, with some fields changed."""
    fields = {"__ndarray__": True, "data": bytes(8), "dtype": "<f4", "shape": [2], **changes}
    return {key.encode(): value for key, value in fields.items() if value != "missing"}


def number_map(data: object, dtype: str) -> dict[bytes, object]:
    return {b"__npgeneric__": True, b"data": data, b"dtype": dtype}


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(("value", "frame"), FRAMES.values(), ids=FRAMES)
def test_a_frame_has_the_bytes_that_openpi_client_writes(value: object, frame: str):
    assert pack(value).hex() == frame


@pytest.mark.parametrize(("value", "frame"), FRAMES.values(), ids=FRAMES)
def test_a_frame_of_openpi_client_is_read_as_it_was(value: object, frame: str):
    read = unpack(bytes.fromhex(frame))
    np.testing.assert_equal(read, value)
    assert pack(read).hex() == frame  # the types of arrays and numbers, too


def test_the_arrays_of_a_frame_cannot_be_written_to():
    assert not unpack(pack(np.zeros(3))).flags.writeable


REFUSED = {
    "an object array": (array_map(dtype="|O", data=b"x" * 16), "dtype: found '|O', expected one of |b1"),
    "a text array": (array_map(dtype="<U2"), "dtype: found '<U2'"),
    "a record": (array_map(dtype="|V8"), "dtype: found '|V8'"),
    "another byte order": (array_map(dtype=">f4"), "dtype: found '>f4'"),
    "a dtype that is a list": (array_map(dtype=[["a", "<f4"]]), "dtype: found a value of type list"),
    "no dtype": (array_map(dtype="missing"), "dtype: found nothing"),
    "no shape": (array_map(shape="missing"), "shape: found nothing"),
    "no data": (array_map(data="missing"), "data: found nothing"),
    "text as data": (array_map(data="abcdefgh"), "data: found a value of type str"),
    "a negative side": (array_map(shape=[-1]), "shape: found -1, expected whole numbers from 0"),
    "a fraction": (array_map(shape=[2.0]), "shape: found 2.0"),
    "a truth value as side": (array_map(shape=[True, 2]), "shape: found true"),
    "a huge side": (array_map(shape=[2**63]), "elements at most"),
    "huge sides beside none": (array_map(shape=[0, 2**40], data=b""), "elements at most"),
    "many dimensions": (array_map(shape=[1] * 9), "found 9 dimensions, expected 8 at most"),
    "too little data": (array_map(shape=[3]), "found 8 bytes of data, expected 12 for shape [3] of float32"),
    "too much data": (array_map(shape=[1]), "found 8 bytes of data, expected 4"),
    "a number of objects": (number_map(1, "|O"), "dtype: found '|O'"),
    "a number that does not fit": (number_map(256, "|u1"), "found 256, which uint8 cannot hold"),
    "a fraction as integer": (number_map(1.5, "<i4"), "data: found a value of type float"),
    "a truth value as number": (number_map(True, "<i4"), "expected a value of type int32"),
    "a text as number": (number_map("1", "<f4"), "data: found a value of type str"),
    "an extension": (msgpack.ExtType(5, b"abc"), "found a msgpack extension (code 5, 3 bytes)"),
    "a time": (msgpack.Timestamp(0), "found a msgpack Timestamp"),
    "deep nesting": (nested(MAX_DEPTH + 1), f"nested in more than {MAX_DEPTH} levels"),
    "a long list": ([None] * 4097, "4097 exceeds max_array_len(4096)"),
    "a long key": ({"k" * 257: 1}, "found a key of 257 characters, expected 256 at most"),
    "many values": ([[None] * 4000] * 3, f"found more than {MAX_VALUES} values"),
}


@pytest.mark.parametrize(("value", "words"), REFUSED.values(), ids=REFUSED)
def test_what_openpi_client_never_writes_is_refused(value: object, words: str):
    with pytest.raises(WireError) as caught:
        unpack(msgpack.packb({"observation": value}))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x91", b"\x01\x02", b"\xa1\xff", b"\x81\x01\x02", b"\x81\x90\x02", b"\x91" * 100_000],
    ids=["nothing", "no type", "cut", "two values", "no UTF-8", "a number as key", "a list as key", "depths"],
)
def test_bytes_that_are_no_frame_are_refused(data: bytes):
    with pytest.raises(WireError, match="are not msgpack within the limits"):
        unpack(data)


def test_a_frame_of_millions_of_empty_maps_is_refused_before_they_exist():
    lists = [b"\xdc" + struct.pack(">H", 4096) + b"\x80" * 4096] * 4096
    with pytest.raises(WireError, match="values in its maps and lists"):
        unpack(b"\xdc" + struct.pack(">H", 4096) + b"".join(lists), max_bytes=1 << 30)


def test_a_frame_beyond_the_limit_is_refused():
    with pytest.raises(WireError, match="found 11 bytes, expected 10 at most"):
        unpack(pack("0123456789"), max_bytes=10)
    assert unpack(pack("012345678"), max_bytes=10) == "012345678"


def test_nesting_within_the_limit_is_read():
    assert unpack(pack(nested(MAX_DEPTH))) == nested(MAX_DEPTH)


@pytest.mark.parametrize(
    ("value", "words"), [([], "type list"), (np.zeros(2), "type ndarray"), ({b"a": 1}, "found the key")]
)
def test_an_observation_must_be_a_map_of_texts(value: object, words: str):
    with pytest.raises(WireError) as caught:
        unpack_map(pack(value))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [object(), np.array(["a"]), np.array([None]), np.zeros(1, complex), np.zeros(1, ">f4"), 2**70],
    ids=["object", "text", "objects", "complex", "big-endian", "long integer"],
)
def test_what_a_peer_could_not_read_is_not_written(value: object):
    with pytest.raises(WireError, match=r"cannot be written|expected one of"):
        pack({"a": value})
