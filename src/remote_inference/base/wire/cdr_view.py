# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads serialized messages as views: bytes and numbers of a sequence stay where they arrived.

rclpy's deserializer copies an image three times and holds the interpreter meanwhile; a view copies only what
is small. The readers are made from the definition that rosidl generated, so that a view follows its .msg.

Format: CDR (XCDR version 1, DDS-XTypes 1.3 §7.4.3), as every rmw of ROS 2 writes it: four bytes that name the
byte order, then the fields in their order, each number at a multiple of its size from there.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from rosidl_parser.definition import Array, BasicType, NamespacedType, UnboundedSequence, UnboundedString

from remote_inference.base.wire.arrays import WireError

# A reader takes the bytes after the first four and a position, and returns a value and the position after it.
Reader = Callable[[memoryview, int], "tuple[Any, int]"]

_HEADER_LENGTH = 4
MAX_ELEMENTS = 2048  # of a sequence that is no numbers: each costs an object, in an unchecked message
_BYTE_ORDERS = {b"\0\0": ">", b"\0\1": "<"}
_NATIVE = {"little": "<", "big": ">"}[sys.byteorder]
_FORMATS = {
    **{"uint8": "B", "int8": "b", "int16": "h", "uint16": "H"},
    **{"int32": "i", "uint32": "I", "int64": "q", "uint64": "Q", "float": "f", "double": "d"},
}


class _ReadError(Exception):
    """Bytes are not the message's; the text begins with the field's place."""


def view_message(data: bytes, message_type: type[Any], what: str, until: str = "") -> Any:
    """Return an object with the fields of `message_type`, from its CDR bytes. until: the last one of them.

    Sequences of numbers are memoryviews into `data`, or arrays where the byte order is not this machine's.
    Raises WireError, naming `what` and the field, for bytes that are no such message.
    """
    order = _BYTE_ORDERS.get(data[:2]) if len(data) >= _HEADER_LENGTH else None
    if order is None:
        found = data[:2].hex() or "nothing"
        raise WireError(
            f"{what}: found {len(data)} bytes that begin with {found}, expected 0000 or 0001 (CDR)"
        )
    try:
        read = _message_reader(message_type, order, until)  # type: ignore[arg-type]  # a class is hashable
        return read(memoryview(data)[_HEADER_LENGTH:], 0)[0]
    except _ReadError as error:
        expected = f"a serialized {message_type.__name__}"
        raise WireError(f"{what}: {error}, in {len(data)} bytes; expected {expected}") from None


@cache
def _message_reader(message_type: Any, order: str, until: str = "") -> Reader:
    names = tuple(message_type.get_fields_and_field_types())
    readers = [_reader(slot, order) for slot in message_type.SLOT_TYPES]
    fields = tuple(zip(names, readers, strict=True))[: names.index(until) + 1 if until else None]

    def read(memory: memoryview, at: int) -> tuple[SimpleNamespace, int]:
        values = {}
        name = ""
        try:
            for name, reader in fields:
                values[name], at = reader(memory, at)
        except struct.error:
            raise _ReadError(f"{name}: found the end") from None
        except _ReadError as error:
            raise _ReadError(f"{name}{error}") from None
        return SimpleNamespace(**values), at

    return read


def _reader(slot: Any, order: str) -> Reader:
    """Return the reader of a field. Raises TypeError for a kind that no hot message has."""
    if isinstance(slot, UnboundedString):
        return _string_reader(order)
    if isinstance(slot, BasicType) and slot.typename == "boolean":
        return _boolean
    if isinstance(slot, BasicType) and slot.typename in _FORMATS:
        return _number_reader(_FORMATS[slot.typename], order)
    if isinstance(slot, NamespacedType):
        nested = _message_reader(getattr(import_module(".".join(slot.namespaces)), slot.name), order)
        return lambda memory, at: _within(".", nested, memory, at)
    if isinstance(slot, (UnboundedSequence, Array)):
        size = slot.size if isinstance(slot, Array) else None
        count: Reader = _number_reader("I", order) if size is None else lambda _, at: (size, at)
        element = slot.value_type
        if isinstance(element, BasicType) and element.typename in _FORMATS:
            return _numbers_reader(count, _FORMATS[element.typename], order)
        return _elements_reader(count, _reader(element, order))
    raise TypeError(f"found a field of type {slot}, expected one that views are made of")


def _within(mark: str, read: Reader, memory: memoryview, at: int) -> tuple[Any, int]:
    """Read a part of a field; what cannot be read is named with `mark` before it."""
    try:
        return read(memory, at)
    except _ReadError as error:
        raise _ReadError(f"{mark}{error}") from None


def _boolean(memory: memoryview, at: int) -> tuple[bool, int]:
    value = struct.unpack_from("B", memory, at)[0]
    if value > 1:
        raise _ReadError(f": found {value}, expected 0 or 1")
    return value == 1, at + 1


def _number_reader(kind: str, order: str) -> Reader:
    layout = struct.Struct(order + kind)
    size, unpack = layout.size, layout.unpack_from
    gap = size - 1

    def read(memory: memoryview, at: int) -> tuple[Any, int]:
        at = (at + gap) & -size
        return unpack(memory, at)[0], at + size

    return read


def _string_reader(order: str) -> Reader:
    count = _number_reader("I", order)

    def read(memory: memoryview, at: int) -> tuple[str, int]:
        length, at = count(memory, at)
        end = at + length
        _require(memory, at, end)
        # rclpy ends a text at its first zero and replaces what is no UTF-8.
        return str(memory[at:end], "utf-8", "replace").partition("\0")[0], end

    return read


def _numbers_reader(count: Reader, kind: Any, order: str) -> Reader:
    size = struct.calcsize(order + kind)
    gap = size - 1

    def read(memory: memoryview, at: int) -> tuple[Any, int]:
        length, at = count(memory, at)
        if not length:  # nothing follows, not even the gap before a number
            return memory[at:at].cast(kind), at
        at = (at + gap) & -size
        end = at + length * size
        _require(memory, at, end)
        if size == 1 or order == _NATIVE:
            return memory[at:end].cast(kind), end
        swapped: array[Any] = array(kind, memory[at:end].tobytes())
        swapped.byteswap()
        return swapped, end

    return read


def _elements_reader(count: Reader, element: Reader) -> Reader:
    def read(memory: memoryview, at: int) -> tuple[list[Any], int]:
        length, at = count(memory, at)
        if length > MAX_ELEMENTS:
            raise _ReadError(f": found {length} elements, expected {MAX_ELEMENTS} at most")
        values = []
        for index in range(length):
            value, at = _within(f"[{index}]", element, memory, at)
            values.append(value)
        return values, at

    return read


def _require(memory: memoryview, at: int, end: int) -> None:
    if end > len(memory):
        raise _ReadError(f": found {max(0, len(memory) - at)} bytes, expected {end - at}")
