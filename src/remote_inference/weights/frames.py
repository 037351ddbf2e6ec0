# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Frames: what one end of a transfer says to the other, sealed so that a changed bit or a missing end shows.

A frame has 3 bytes that name the protocol, one each for its version and the frame's kind, 8 that name the
trainer, 32 that are the SHA-256 of all others, and a body: msgpack, or a part of a payload. Nothing is
unpickled. A body is read only when its seal is whole, and still trusted with nothing.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgpack

from remote_inference.core.documents.problems import show_value
from remote_inference.weights.reasons import Reason, WeightsError
from remote_inference.weights.tensors.tensors import MAX_TENSORS

SCHEMA = 1
MAX_BUCKET_BYTES = 128 << 20
MAX_FRAME_BYTES = MAX_BUCKET_BYTES + (1 << 20)
MAX_CONTROL_BYTES = 16 << 20  # of a body that is msgpack: a table of 100000 tensors fits
SENDER_BYTES = 8

_MAGIC = b"RIW"
_HEAD = struct.Struct(f"<3sBB{SENDER_BYTES}s")
_SEAL_BYTES = 32
_PART = struct.Struct("<QI")  # version and index of a part; its bytes follow

Buffer = bytes | bytearray | memoryview


class Kind(IntEnum):
    """What a frame is; the first four go to the receiver, the others come back."""

    HELLO = 1
    UPDATE = 2
    PART = 3
    RELEASE = 4
    WELCOME = 5
    APPLIED = 6
    REFUSED = 7


@dataclass(frozen=True)
class Frame:
    """A frame whose seal is whole. sender: of the trainer that it is from, or for."""

    kind: Kind
    sender: bytes
    body: memoryview


@dataclass(frozen=True)
class Part:
    """A part of an update's payload, as it travels: maybe compressed."""

    version: int
    index: int
    data: memoryview


def pack_frame(kind: Kind, sender: bytes, *body: Buffer) -> bytes:
    """Return the bytes of a frame."""
    head = _HEAD.pack(_MAGIC, SCHEMA, kind, sender)
    seal = hashlib.sha256(head)
    for piece in body:
        seal.update(piece)
    return b"".join((head, seal.digest(), *body))


def read_frame(data: Buffer) -> Frame:
    """Return a frame. Raises WeightsError for bytes that are none, or of another version of the protocol."""
    if not _HEAD.size + _SEAL_BYTES <= len(data) <= MAX_FRAME_BYTES:
        raise WeightsError(
            Reason.FRAME, f"frame: found {len(data)} bytes, expected {_HEAD.size + _SEAL_BYTES} or more"
        )
    whole = memoryview(data)
    magic, schema, kind, sender = _HEAD.unpack_from(whole)
    if magic != _MAGIC:
        raise WeightsError(Reason.FRAME, f"frame: found {show_value(magic.hex())}, expected {_MAGIC.hex()}")
    if schema != SCHEMA:
        raise WeightsError(Reason.SCHEMA, f"frame: found version {schema}, expected {SCHEMA}")
    body = whole[_HEAD.size + _SEAL_BYTES :]
    seal = hashlib.sha256(whole[: _HEAD.size])
    seal.update(body)
    if seal.digest() != whole[_HEAD.size : _HEAD.size + _SEAL_BYTES]:
        raise WeightsError(Reason.FRAME, f"frame: {len(data)} bytes do not have the digest that they carry")
    if kind not in set(Kind):
        raise WeightsError(Reason.FRAME, f"frame: found kind {kind}, expected 1 to {max(Kind)}")
    return Frame(Kind(kind), sender, body)


def sender_of(data: Buffer) -> bytes:
    """Return the trainer that a frame says it is from, whatever else it is; empty when it is too short."""
    return bytes(data[_HEAD.size - SENDER_BYTES : _HEAD.size]) if len(data) >= _HEAD.size else b""


def pack_part(sender: bytes, version: int, index: int, data: Buffer) -> bytes:
    return pack_frame(Kind.PART, sender, _PART.pack(version, index), data)


def read_part(body: memoryview) -> Part:
    """Return the part in a frame's body. Raises WeightsError when it is too short to be one."""
    if len(body) < _PART.size:
        raise WeightsError(Reason.FRAME, f"part: found {len(body)} bytes, expected {_PART.size} or more")
    version, index = _PART.unpack_from(body)
    return Part(version, index, body[_PART.size :])


def pack_map(kind: Kind, sender: bytes, values: Mapping[str, Any]) -> bytes:
    """Return a frame whose body is a map of plain values."""
    return pack_frame(kind, sender, msgpack.packb(values))


def read_map(body: memoryview, fields: Mapping[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """Return the map in a body: these fields, of these types. Unknown keys are left out.

    Raises WeightsError for anything else.
    """
    if len(body) > MAX_CONTROL_BYTES:
        raise WeightsError(
            Reason.FRAME, f"body: found {len(body)} bytes, expected {MAX_CONTROL_BYTES} at most"
        )
    try:
        values = msgpack.unpackb(
            body, max_array_len=MAX_TENSORS, max_map_len=64, max_ext_len=0, strict_map_key=True
        )
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise WeightsError(Reason.FRAME, f"body: {len(body)} bytes are not msgpack: {reason}") from error
    if not isinstance(values, dict):
        raise WeightsError(Reason.FRAME, f"body: found a {type(values).__name__}, expected a map")
    return {key: _require(values, key, kinds) for key, kinds in fields.items()}


def _require(values: Mapping[Any, Any], key: str, kinds: type | tuple[type, ...]) -> Any:
    value = values.get(key)
    is_out = isinstance(value, bool) or (isinstance(value, int) and not 0 <= value < 1 << 64)
    if is_out or not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
        raise WeightsError(Reason.FRAME, f"body: {key}: found {show_value(value)}, expected {names}")
    return value
