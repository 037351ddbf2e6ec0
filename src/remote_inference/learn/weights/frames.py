# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Frames: the messages between both ends of a transfer, sealed so that a changed bit or a missing end shows.

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
from typing import Any, Protocol

import msgpack

from remote_inference.base.documents.problems import show_value
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.tensors import (
    MAX_TENSORS,
    TensorSpec,
    show_digest,
    table_from_list,
    table_to_list,
)

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

# -- What carries whole frames between a trainer and a server --------------------------------------------


class LinkClosedError(WeightsError):
    """The other end has gone, or this one is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(Reason.TRANSPORT, text)


class Link(Protocol):
    """One end of a connection. Frames arrive whole and in order, or not at all. One thread uses an end."""

    def send(self, frame: bytes, timeout_s: float) -> None:
        """Hand a frame over. Raises LinkClosedError, and TimeoutError when the other end takes nothing more.

        After a TimeoutError a part of the frame may be on its way: the link is good for nothing but closing.
        """

    def receive(self, timeout_s: float) -> bytes:
        """Return the next frame. Raises LinkClosedError, and TimeoutError when none comes in time."""

    def close(self) -> None:
        """Let the other end know; safe to call again."""


# -- A frame ---------------------------------------------------------------------------------------------


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


def pack_frame(kind: Kind, sender: bytes, *body: Buffer) -> bytes:
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
    """Return the trainer in a frame's head, even of a damaged frame; empty when it is too short."""
    return bytes(data[_HEAD.size - SENDER_BYTES : _HEAD.size]) if len(data) >= _HEAD.size else b""


def pack_part(sender: bytes, version: int, index: int, data: Buffer) -> bytes:
    return pack_frame(Kind.PART, sender, _PART.pack(version, index), data)


def read_part(body: memoryview) -> tuple[int, int, memoryview]:
    """Return version and index of a payload's part, and its bytes as they travel. Raises WeightsError."""
    if len(body) < _PART.size:
        raise WeightsError(Reason.FRAME, f"part: found {len(body)} bytes, expected {_PART.size} or more")
    version, index = _PART.unpack_from(body)
    return version, index, body[_PART.size :]


def read_map(body: memoryview, fields: Mapping[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """Return these fields, of these types, of the map in a body; others are left out. Raises WeightsError."""
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


# -- The header of an update, and the other messages: their fields, written and read within bounds -------

MIN_BUCKET_BYTES = 1024


@dataclass(frozen=True)
class Header:
    """What an update is, sent before its payload.

    base_version, base_digest: of the weights that it changes; None: it holds all of them. digest: of the
    result. table: digest of names, types and shapes. bucket_size: most bytes of a part before compression.
    details: of the strategy, about its payload.
    """

    strategy: str
    version: int
    digest: int
    base_version: int | None
    base_digest: int | None
    table: bytes
    compression: str
    bucket_size: int
    details: Any

    @property
    def base(self) -> tuple[int | None, int] | None:
        """Version and digest of the weights that it changes; None: it holds all of them."""
        return None if self.base_digest is None else (self.base_version, self.base_digest)


@dataclass(frozen=True)
class Welcome:
    """What a receiver serves, sent to a trainer that it accepts.

    highest: version that it ever served, which is above `version` after a rollback.
    """

    version: int
    digest: int
    table: tuple[TensorSpec, ...]
    highest: int


@dataclass(frozen=True)
class Applied:
    """An update is served. seconds: that the exchange of the weights took."""

    version: int
    digest: int
    seconds: float


@dataclass(frozen=True)
class Refused:
    """Nothing was changed. version: of the update, 0 where none is known."""

    version: int
    reason: Reason
    text: str


_KINDS: Mapping[type, Kind] = {
    Header: Kind.UPDATE,
    Welcome: Kind.WELCOME,
    Applied: Kind.APPLIED,
    Refused: Kind.REFUSED,
}


def pack_message(sender: bytes, message: Header | Welcome | Applied | Refused) -> bytes:
    """Return the frame of a message. sender: the trainer that it is from, or for."""
    values = vars(message)
    if isinstance(message, Welcome):
        values = {**values, "table": table_to_list(message.table)}
    return pack_frame(_KINDS[type(message)], sender, msgpack.packb(values))


def read_header(frame: Frame) -> Header:
    """Return an update's header. Raises WeightsError for one that is none, or whose parts are too large."""
    header = Header(
        **read_map(
            frame.body,
            {
                "strategy": str,
                "version": int,
                "digest": int,
                "base_version": (int, type(None)),
                "base_digest": (int, type(None)),
                "table": bytes,
                "compression": str,
                "bucket_size": int,
                "details": (list, str, type(None)),
            },
        )
    )
    if not MIN_BUCKET_BYTES <= header.bucket_size <= MAX_BUCKET_BYTES:
        raise WeightsError(
            Reason.SIZE,
            f"header: bucket_size: found {header.bucket_size}, "
            f"expected {MIN_BUCKET_BYTES} to {MAX_BUCKET_BYTES}",
        )
    return header


def check_header(header: Header, table: bytes, served: tuple[int, int], highest: int) -> None:
    """Raise WeightsError for an update that cannot follow on what is served.

    table: digest of the tensors. served: version and digest. highest: version that was ever served.
    """
    if header.table != table:
        text = f"found {header.table.hex()} as digest of the tensors, expected {table.hex()}"
        raise WeightsError(Reason.ARCHITECTURE, text)
    if header.base and header.base != served:
        found, expected = (f"{version} ({show_digest(digest)})" for version, digest in (header.base, served))
        raise WeightsError(Reason.BASE, f"found base {found}, expected {expected}, which is served")
    if header.version <= highest:
        text = f"found version {header.version}, expected one above {highest}, the highest that was served"
        raise WeightsError(Reason.ORDER, text)


def read_welcome(frame: Frame) -> Welcome:
    """Return a server's welcome. Raises WeightsError for anything else."""
    fields = {"version": int, "digest": int, "table": list, "highest": int}
    values = read_map(frame.body, fields)
    return Welcome(**{**values, "table": table_from_list(values["table"])})


def read_applied(frame: Frame) -> Applied:
    """Return a server's acknowledgement. Raises WeightsError for anything else."""
    return Applied(**read_map(frame.body, {"version": int, "digest": int, "seconds": float}))


def read_refused(frame: Frame) -> Refused:
    """Return a server's refusal. Raises WeightsError for anything else."""
    values = read_map(frame.body, {"version": int, "reason": str, "text": str})
    if values["reason"] not in {reason.value for reason in Reason}:
        raise WeightsError(Reason.FRAME, f"refusal: found the reason {show_value(values['reason'])}")
    return Refused(values["version"], Reason(values["reason"]), values["text"])
