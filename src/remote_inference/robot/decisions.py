# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Entries of an engine's journal as msgpack, exact in every bit: one value each, of a run's begin on.

An entry is `[number, method, arguments, named, error]`. Arrival times hold the topics that changed since the
last entry, and an array that did not change is marked as such. A session's token is left out. What is encoded
at once ends with a checksum: most changed bytes would still be entries, of something that never was.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from remote_inference.base.contract.contract import Contract
from remote_inference.base.exchange import Chunk, ChunkStatus, SessionReply, StatusReply
from remote_inference.base.wire.arrays import ByteBuffer, WireError
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.journal import Begin, Entry
from remote_inference.robot.queue.observation_history import TickSample

FORMAT = 1  # of the begin: another one means entries of another shape
SECRETS = {"session_token"}
CHECKSUM_BYTES = 4
RENAMED = {"take_rival": "take_duplicate_node"}  # methods, since bags of before

_BEGIN, _ARRAY, _SAME, _ARRIVALS = range(4)  # codes of msgpack's extension types
_RECORDS: Mapping[int, type[Any]] = {10: Chunk, 11: SessionReply, 12: StatusReply, 13: TickSample}
_CODES = {kind: code for code, kind in _RECORDS.items()}


class DecisionEncoder:
    """Encodes one run's entries, in order."""

    def __init__(self) -> None:
        self._arrivals: Mapping[str, int] = {}
        self._array = b""
        self._packer = msgpack.Packer(default=self._extend)

    def encode(self, entries: Iterable[Entry]) -> bytes:
        """Return the next entries, one msgpack value after another."""
        pack = self._packer.pack
        return b"".join(
            pack((number, method, [self._mark(argument) for argument in arguments], named, error))
            for number, method, arguments, named, error in entries
        )

    @staticmethod
    def seal(data: ByteBuffer) -> bytes:
        """Return encoded entries with their checksum."""
        return bytes(data) + zlib.crc32(data).to_bytes(CHECKSUM_BYTES, "little")

    def _mark(self, argument: Any) -> Any:
        """Return an argument; of arrival times, those that have changed."""
        if not isinstance(argument, dict):
            return argument
        before, self._arrivals = self._arrivals, argument
        if before.keys() <= argument.keys():
            argument = {topic: at for topic, at in argument.items() if before.get(topic) != at}
        else:
            argument = {"": 0, **argument}  # no topic has this name: all others are forgotten
        return msgpack.ExtType(_ARRIVALS, msgpack.packb(argument))

    def _extend(self, value: Any) -> msgpack.ExtType:
        if isinstance(value, np.ndarray):
            packed = _pack_array(value)
            if packed.data == self._array:
                return msgpack.ExtType(_SAME, b"")
            self._array = packed.data
            return packed
        if isinstance(value, Begin):
            return msgpack.ExtType(_BEGIN, self._pack_begin(value))
        code = _CODES[type(value)]
        names = [field.name for field in fields(value) if field.name not in SECRETS]
        shown = {name: getattr(value, name) for name in names}
        return msgpack.ExtType(code, msgpack.packb(shown, default=_pack_array))

    @staticmethod
    def _pack_begin(begin: Begin) -> bytes:
        named = {field.name: getattr(begin, field.name) for field in fields(begin)}
        named["contract"] = begin.contract.model_dump(by_alias=True)
        # A node's parameters are more than the engine's.
        named["config"] = {name: getattr(begin.config, name) for name in RobotConfig.model_fields}
        return bytes(msgpack.packb({"format": FORMAT, **named}))


def _pack_array(value: Any) -> msgpack.ExtType:
    return msgpack.ExtType(_ARRAY, msgpack.packb((value.dtype.str, value.shape, value.tobytes())))


class DecisionDecoder:
    """Decodes one run's entries, in order. Raises WireError for data that are none."""

    def __init__(self) -> None:
        self._arrivals: Mapping[str, int] = {}
        self._array: Any = None

    def decode(self, sealed: ByteBuffer) -> Iterator[Entry]:
        """Yield the entries of a message's data."""
        data, checksum = bytes(sealed[:-CHECKSUM_BYTES]), bytes(sealed[-CHECKSUM_BYTES:])
        if zlib.crc32(data).to_bytes(CHECKSUM_BYTES, "little") != checksum:
            raise WireError(f"decisions: {len(sealed)} bytes do not fit their checksum: some were changed")
        unpacker = msgpack.Unpacker(
            ext_hook=self._restore, use_list=False, strict_map_key=False, max_buffer_size=0
        )
        unpacker.feed(data)
        try:
            for number, method, arguments, named, error in unpacker:
                yield Entry(number, RENAMED.get(method, method), arguments, named, error)
        except WireError:
            raise
        except Exception as problem:  # damaged bytes may raise anything in msgpack, numpy and the models
            reason = " ".join(str(problem).split())  # pydantic's has many lines
            raise WireError(f"decisions: found {len(data)} bytes that are no entries: {reason}") from problem

    def _restore(self, code: int, data: bytes) -> Any:
        if code == _ARRIVALS:
            changed = msgpack.unpackb(data)
            before = {} if changed.pop("", None) is not None else self._arrivals
            self._arrivals = {**before, **changed}
            return self._arrivals
        if code == _SAME:
            return self._array
        if code == _ARRAY:
            self._array = _unpack_array(data)
            return self._array
        if code == _BEGIN:
            return _unpack_begin(data)
        named = msgpack.unpackb(data, ext_hook=lambda _, array: _unpack_array(array), use_list=False)
        if code == _CODES[Chunk]:
            named["status"] = ChunkStatus(named["status"])
        return _RECORDS[code](**named)


def _unpack_array(data: bytes) -> NDArray[Any]:
    kind, shape, values = msgpack.unpackb(data)
    array: NDArray[Any] = np.frombuffer(values, kind).reshape(shape)
    return array


def _unpack_begin(data: bytes) -> Begin:
    named = msgpack.unpackb(data, use_list=False)
    if (found := named.pop("format")) != FORMAT:
        raise WireError(f"decisions: found format {found}, expected {FORMAT}")
    named["contract"] = Contract.model_validate(named["contract"])
    named["config"] = RobotConfig.model_validate(named["config"])
    return Begin(**named)
