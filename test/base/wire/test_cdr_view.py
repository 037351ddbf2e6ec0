# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A view shows what rclpy's deserializer gives, and refuses what that refuses."""

from __future__ import annotations

import math
import random
import re
import struct
from array import array
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from builtin_interfaces.msg import Time
from hypothesis import strategies
from rclpy.serialization import deserialize_message, serialize_message
from rosidl_parser.definition import BasicType, NamespacedType, UnboundedSequence, UnboundedString
from sensor_msgs.msg import BatteryState, CompressedImage, Image, JointState, PointCloud2
from std_msgs.msg import ByteMultiArray, Header

from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.cdr_view import MAX_ELEMENTS, view_message
from remote_inference.msg import ActionChunk, Observation

HOT = (Observation, ActionChunk, Image, CompressedImage, JointState)
BOUNDS = {"uint8": (0, 2**8), "int8": (-(2**7), 2**7), "uint16": (0, 2**16), "int16": (-(2**15), 2**15)} | {
    f"{sign}{bits}": (low, high)
    for bits in (32, 64)
    for sign, low, high in (("uint", 0, 2**bits), ("int", -(2 ** (bits - 1)), 2 ** (bits - 1)))
}
CODES = {
    **{"boolean": "?", "uint8": "B", "int8": "b", "uint16": "H", "int16": "h", "uint32": "I", "int32": "i"},
    **{"uint64": "Q", "int64": "q", "float": "f", "double": "d"},
}
# rclpy takes any truth value but 0 for 1, and any number of elements, and leaves the data of an image empty
# that exceeds the bytes.
LAXER = re.compile(r"expected 0 or 1|expected 2048 at most|\[\d+\]\..*: found \d+ bytes, expected \d+, in ")
SPOILED = 100  # spoiled copies of each of a thousand messages


def values_of(slot: Any) -> strategies.SearchStrategy[Any]:
    if isinstance(slot, UnboundedString):
        return strategies.text(strategies.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    if isinstance(slot, NamespacedType):
        module = __import__(".".join(slot.namespaces), fromlist=[slot.name])
        return messages_of(getattr(module, slot.name))
    if isinstance(slot, UnboundedSequence):
        return strategies.lists(values_of(slot.value_type), max_size=3)
    if slot.typename == "boolean":
        return strategies.booleans()
    if slot.typename in BOUNDS:
        low, high = BOUNDS[slot.typename]
        return strategies.integers(low, high - 1)
    return strategies.floats(width=32 if slot.typename == "float" else 64)


def messages_of(message_type: type[Any]) -> strategies.SearchStrategy[Any]:
    names = message_type.get_fields_and_field_types()
    return strategies.builds(
        message_type,
        **{name: values_of(slot) for name, slot in zip(names, message_type.SLOT_TYPES, strict=True)},
    )


def write(message: Any, order: str) -> bytes:
    """Return a message's CDR bytes in a byte order: rclpy writes only this machine's."""
    out = bytearray()

    def put(code: str, *values: Any) -> None:
        size = struct.calcsize(order + code)
        out.extend(bytes(-len(out) % size))
        out.extend(struct.pack(f"{order}{len(values)}{code}", *values))

    def put_value(slot: Any, value: Any) -> None:
        if isinstance(slot, UnboundedString):
            text = value.encode() + b"\0"
            put("I", len(text))
            out.extend(text)
        elif isinstance(slot, NamespacedType):
            put_message(value)
        elif isinstance(slot, UnboundedSequence):
            put("I", len(value))
            for element in value:
                put_value(slot.value_type, element)
        else:
            assert isinstance(slot, BasicType)
            put(CODES[slot.typename], value)

    def put_message(message: Any) -> None:
        names = type(message).get_fields_and_field_types()
        for name, slot in zip(names, type(message).SLOT_TYPES, strict=True):
            put_value(slot, getattr(message, name))

    put_message(message)
    return (b"\0\1\0\0" if order == "<" else b"\0\0\0\0") + bytes(out)


def same(view: Any, value: Any) -> bool:
    """Return whether a view shows what a message holds; NaN is equal to NaN."""
    if hasattr(value, "get_fields_and_field_types"):
        return all(
            same(getattr(view, name), getattr(value, name)) for name in value.get_fields_and_field_types()
        )
    if isinstance(value, list):
        return len(view) == len(value) and all(map(same, view, value))
    if isinstance(value, array):
        kind = view.format if isinstance(view, memoryview) else view.typecode
        return kind == value.typecode and bytes(view) == value.tobytes()
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(view)
    return type(view) is type(value) and view == value


def read(data: bytes, message_type: type[Any]) -> Any:
    """Return what rclpy reads, None for bytes that it refuses."""
    try:
        return deserialize_message(data, message_type)
    except Exception:
        return None


def try_to_view(data: bytes, message_type: type[Any]) -> tuple[Any, str]:
    """Return a view, and why there is none."""
    try:
        return view_message(data, message_type, "it"), ""
    except WireError as error:
        return None, str(error)


def spoil(data: bytes, chance: random.Random) -> Iterator[bytes]:
    for _ in range(SPOILED // 2):
        yield data[: chance.randrange(len(data))]
        spoiled = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            spoiled[chance.randrange(4, len(data))] = chance.randrange(256)
        yield bytes(spoiled)


@pytest.mark.parametrize("message_type", HOT, ids=lambda kind: kind.__name__)
def test_a_view_shows_what_rclpy_reads_whole_and_spoiled_in_both_byte_orders(message_type: type[Any]) -> None:
    @hypothesis.settings(max_examples=100, deadline=None)
    @hypothesis.given(message=messages_of(message_type), seed=strategies.integers(0, 2**32))
    def compare(message: Any, seed: int) -> None:
        chance = random.Random(seed)
        whole = serialize_message(message)
        for data in (whole, write(message, "<"), write(message, ">")):
            assert same(view_message(data, message_type, "it"), read(whole, message_type))
        for data in (whole, write(message, ">")):
            for spoiled in spoil(data, chance):
                expected = read(spoiled, message_type)
                view, refusal = try_to_view(spoiled, message_type)
                if refusal:
                    assert expected is None or LAXER.search(refusal)
                else:
                    assert expected is not None
                    assert same(view, expected)

    compare()


def observation() -> Observation:
    image = CompressedImage(format="jpeg", data=array("B", range(100)))
    return Observation(
        header=Header(stamp=Time(sec=1, nanosec=2), frame_id="base"),
        session_id="s",
        seq_id=7,
        episode_start=True,
        state=array("f", [1.0, 2.0]),
        images=[image, image],
    )


def test_what_is_large_is_not_copied() -> None:
    data = serialize_message(observation())
    view = view_message(data, Observation, "observation")
    assert view.images[1].data.obj is data
    assert view.state.obj is data
    assert view.state.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (0, "observation: found 0 bytes that begin with nothing, expected 0000 or 0001 (CDR)"),
        (6, "observation: header.stamp.sec: found the end, in 6 bytes; expected a serialized Observation"),
        (14, "observation: header.frame_id: found the end"),
        (20, "observation: header.frame_id: found 4 bytes, expected 5"),
    ],
)
def test_bytes_that_end_early_are_refused_with_the_field(cut: int, words: str) -> None:
    with pytest.raises(WireError) as refused:
        view_message(serialize_message(observation())[:cut], Observation, "observation")
    assert str(refused.value).startswith(words)


def test_an_image_that_ends_early_is_named_with_its_index() -> None:
    data = serialize_message(observation())
    second = data.rindex(bytes(range(100)))
    with pytest.raises(WireError, match=r"^observation: images\[1\]\.data: found 40 bytes, expected 100"):
        view_message(data[: second + 40], Observation, "observation")


def test_a_truth_value_of_two_is_refused() -> None:
    begun, going = (Observation(episode_start=start) for start in (True, False))
    pairs = zip(serialize_message(begun), serialize_message(going), strict=True)
    data = bytearray(serialize_message(begun))
    place = next(at for at, (one, other) in enumerate(pairs) if one != other)
    data[place] = 2
    with pytest.raises(WireError, match=r"^observation: episode_start: found 2, expected 0 or 1"):
        view_message(bytes(data), Observation, "observation")


def test_a_message_of_too_many_images_is_refused_before_they_are_read() -> None:
    flood = Observation(images=[CompressedImage() for _ in range(MAX_ELEMENTS + 1)])
    with pytest.raises(WireError, match=r"^observation: images: found 2049 elements, expected 2048 at most"):
        view_message(serialize_message(flood), Observation, "observation")


def test_bytes_of_another_encoding_are_refused() -> None:
    with pytest.raises(WireError, match=r"begin with 0007, expected 0000 or 0001 \(CDR\)"):
        view_message(b"\0\7\0\0" + bytes(100), Observation, "observation")


def test_messages_with_fields_that_views_do_not_know_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"found a field of type .*, expected one that views are made of"):
        view_message(serialize_message(ByteMultiArray()), ByteMultiArray, "bytes")


@pytest.mark.parametrize("message_type", [PointCloud2, BatteryState], ids=lambda kind: kind.__name__)
def test_messages_of_others_can_be_viewed_too(message_type: type[Any]) -> None:
    message = message_type()
    assert same(view_message(serialize_message(message), message_type, "it"), message)
