# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads an MCAP file record by record, as far as it goes: whole, cut off or damaged.

One chunk is in memory at a time, and no index is needed: a recorder that was killed wrote none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from mcap import records
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.stream_reader import breakup_chunk

MAGIC = b"\x89MCAP0\r\n"
HEAD_BYTES = 9  # opcode and length of a record
MAX_RECORD_BYTES = 1 << 31  # a longer one is a damaged length
FOOTER_BYTES = HEAD_BYTES + 20 + len(MAGIC)  # the record at a file's end, and the magic behind it


@dataclass(frozen=True)
class ScannedChannel:
    """A topic as a file describes it."""

    topic: str
    msgtype: str
    encoding: str  # of the definition: ros2msg or ros2idl
    definition: bytes
    message_encoding: str  # cdr
    metadata: dict[str, str]


@dataclass(frozen=True)
class ScannedMessage:
    """One message. Times are in ns: of reception and of publishing."""

    channel: ScannedChannel
    sequence: int
    log_time_ns: int
    publish_time_ns: int
    data: bytes


@dataclass(frozen=True)
class Messages:
    """The messages of one whole chunk, in the file's order."""

    offset: int
    messages: list[ScannedMessage]


@dataclass(frozen=True)
class MetadataRecord:
    """A metadata record."""

    offset: int
    name: str
    values: dict[str, str]


@dataclass(frozen=True)
class Damage:
    """A part of the file that cannot be read. is_end: nothing behind it can be read either."""

    offset: int
    reason: str
    is_end: bool


@dataclass(frozen=True)
class Finished:
    """The end of a file that its writer finished. index_problem: how the index differs from what was read."""

    offset: int
    index_problem: str


Item = Messages | MetadataRecord | Damage | Finished
OnBytes = Callable[[int], None]  # is called with the number of bytes read since the last call


def scan_file(path: Path, on_bytes: OnBytes = lambda _: None) -> Iterator[Item]:
    """Yield what a file holds. The last item is Finished, or Damage that is the end. Raises OSError."""
    size, read = path.stat().st_size, 0
    with path.open("rb") as file:
        for item in _Scan(file, size).items():
            on_bytes(item.offset - read)
            read = item.offset
            yield item
    on_bytes(size - read)


class _Scan:
    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._size = size
        self._schemas: dict[int, records.Schema] = {}
        self._channels: dict[int, ScannedChannel] = {}
        self._chunk_offsets: list[int] = []
        self._messages = 0
        self._read: dict[int, Callable[[int, bytes], Item | None]] = {
            Opcode.CHUNK: self._read_chunk,
            Opcode.SCHEMA: lambda _, payload: self._declare(records.Schema.read(_stream(payload))),
            Opcode.CHANNEL: lambda _, payload: self._declare(records.Channel.read(_stream(payload))),
            Opcode.MESSAGE: self._read_message,
            Opcode.METADATA: self._read_metadata,
        }

    def items(self) -> Iterator[Item]:
        if not self._size:
            yield Damage(0, "the file is empty", is_end=True)
            return
        if (magic := self._file.read(len(MAGIC))) != MAGIC:
            is_cut = MAGIC.startswith(magic)
            reason = "cut off in its first bytes" if is_cut else "no MCAP file: it begins otherwise"
            yield Damage(0, reason, is_end=True)
            return
        self._read_summary()
        while True:
            offset = self._file.tell()
            opcode, payload, problem = self._next_record(offset)
            if problem:
                yield Damage(offset, problem, is_end=True)
                return
            if opcode == Opcode.DATA_END:
                yield self._read_end(offset)
                return
            try:
                item = self._read[opcode](offset, payload) if opcode in self._read else None
            except Exception as error:  # the library raises many kinds for damaged bytes
                name = Opcode(opcode).name.lower().replace("_", " ")
                yield Damage(
                    offset, f"{name} of {len(payload)} bytes is damaged: {_describe(error)}", is_end=False
                )
                continue
            if item is not None:
                yield item

    def _read_summary(self) -> None:
        """Read schemas and channels at the end of a finished file: those of its chunks may be damaged."""
        begin = self._file.tell()
        with suppress(Exception):  # cut off, or damaged: the chunks have them, too
            self._file.seek(-FOOTER_BYTES, os.SEEK_END)
            footer = self._file.read(FOOTER_BYTES)
            start = records.Footer.read(_stream(footer[HEAD_BYTES:])).summary_start
            if footer.endswith(MAGIC) and footer[0] == Opcode.FOOTER and begin < start < self._size:
                self._file.seek(start)
                summary = self._file.read(self._size - start - FOOTER_BYTES)
                for kind in (Opcode.SCHEMA, Opcode.CHANNEL):  # in this order: a channel names a schema
                    for opcode, content in _read_records(summary):
                        if opcode == kind:
                            self._read[opcode](0, content)
        self._file.seek(begin)

    def _next_record(self, offset: int) -> tuple[int, bytes, str]:
        """Return opcode and content of the next record, and why there is none."""
        head = self._file.read(HEAD_BYTES)
        if len(head) < HEAD_BYTES:
            reason = "cut off within a record" if head else "cut off between two records"
            return 0, b"", f"{reason}, and without an index"
        opcode, length = head[0], int.from_bytes(head[1:], "little")
        if length > min(self._size - offset - HEAD_BYTES, MAX_RECORD_BYTES):
            if length > MAX_RECORD_BYTES or not 1 <= opcode <= Opcode.DATA_END:
                return 0, b"", "unreadable from here on: no record begins here"
            return 0, b"", f"cut off within a record: {self._size - offset} bytes of {length + HEAD_BYTES}"
        return opcode, self._file.read(length), ""

    def _read_chunk(self, offset: int, payload: bytes) -> Item:
        chunk = records.Chunk.read(_stream(payload))
        parts = breakup_chunk(chunk, validate_crc=True)
        self._chunk_offsets.append(offset)
        found = []
        for part in parts:
            if isinstance(part, records.Message):
                found.append(self._message(part))
            else:
                self._declare(part)
        self._messages += len(found)
        return Messages(offset, found)

    def _read_message(self, offset: int, payload: bytes) -> Item:
        message = self._message(records.Message.read(_stream(payload), len(payload)))
        self._messages += 1
        return Messages(offset, [message])

    def _read_metadata(self, offset: int, payload: bytes) -> Item:
        record = records.Metadata.read(_stream(payload))
        return MetadataRecord(offset, record.name, record.metadata)

    def _declare(self, part: Any) -> None:
        """Store a schema or a channel. Raises LookupError for a channel without its schema."""
        if isinstance(part, records.Schema):
            self._schemas[part.id] = part
        elif isinstance(part, records.Channel):
            schema = self._schemas[part.schema_id]
            self._channels[part.id] = ScannedChannel(
                part.topic, schema.name, schema.encoding, schema.data, part.message_encoding, part.metadata
            )

    def _message(self, part: records.Message) -> ScannedMessage:
        """Return a message with its channel. Raises LookupError without one."""
        channel = self._channels[part.channel_id]
        return ScannedMessage(channel, part.sequence, part.log_time, part.publish_time, part.data)

    def _read_end(self, offset: int) -> Item:
        """Compare the index, by which readers find the chunks, with what was read."""
        rest = self._file.read()
        if not rest.endswith(MAGIC):
            return Damage(offset, "cut off within its index", is_end=True)
        try:
            chunk_offsets, messages = _read_index(rest[: -len(MAGIC)])
        except Exception as error:  # as above
            return Damage(offset, f"its index is damaged: {_describe(error)}", is_end=True)
        problem = ""
        if chunk_offsets != self._chunk_offsets and self._chunk_offsets:
            readable = len(self._chunk_offsets)
            problem = f"its index names {len(chunk_offsets)} chunks, and {readable} are readable"
        elif messages is not None and messages != self._messages:
            problem = f"its index counts {messages} messages, and {self._messages} are readable"
        return Finished(offset, problem)


def _read_index(data: bytes) -> tuple[list[int], int | None]:
    """Return the offsets of the chunks and the number of messages that an index names."""
    chunk_offsets: list[int] = []
    messages = None
    for opcode, content in _read_records(data):
        if opcode == Opcode.CHUNK_INDEX:
            chunk_offsets.append(records.ChunkIndex.read(_stream(content)).chunk_start_offset)
        elif opcode == Opcode.STATISTICS:
            messages = records.Statistics.read(_stream(content)).message_count
    return sorted(chunk_offsets), messages


def _read_records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield opcode and content of each record. Raises ValueError for one that is cut off."""
    stream = ReadDataStream(BytesIO(data))
    while stream.count < len(data):
        opcode, length = stream.read1(), stream.read8()
        content = stream.read(length)
        if len(content) < length:
            raise ValueError("cut off")
        yield opcode, content


def _stream(payload: bytes) -> ReadDataStream:
    return ReadDataStream(BytesIO(payload))


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__


def file_number(path: Path) -> tuple[int, str]:
    """Return a key that sorts a bag's files as they were written: `run_10.mcap` comes after `run_9.mcap`."""
    number = path.stem.rpartition("_")[2]
    return (int(number) if number.isdecimal() else -1, path.name)


def bag_size(path: Path) -> int:
    """Return the bytes of a bag's MCAP files. Raises OSError."""
    return sum(file.stat().st_size for file in path.glob("*.mcap"))
