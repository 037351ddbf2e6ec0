# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds the records of an MCAP file: whole, cut off or damaged, with or without an index.

All that reads a bag finds its messages here, by walking from record to record. Where no record begins, it
goes on at the next chunk that the index names, or that looks like one. https://mcap.dev/spec
"""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

from mcap import records
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.stream_reader import get_chunk_data_stream

MAGIC = b"\x89MCAP0\r\n"
HEAD = struct.Struct("<BQ")  # opcode and length of a record's content
MAX_BYTES = 1 << 31  # a longer one is a damaged length
FOOTER_BYTES = HEAD.size + 20 + len(MAGIC)  # the record at a file's end, and the magic behind it
END_BYTES = 4  # of the content of the record that ends the data
DATA_OPCODES = {  # of the records among the data; those from 0x80 on are a program's own
    *(Opcode.HEADER, Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE, Opcode.CHUNK, Opcode.MESSAGE_INDEX),
    *(Opcode.ATTACHMENT, Opcode.METADATA, Opcode.DATA_END, *range(0x80, 0x100)),
}
# What a chunk says of its compression, and where: behind its head, two times, a size and a checksum.
CHUNK_MARKS = (b"\x04\x00\x00\x00zstd", b"\x03\x00\x00\x00lz4")
CHUNK_MARK_AT = HEAD.size + 28
SEARCH_BYTES = 1 << 20
ENCODINGS = ("", "ros2msg", "ros2idl", "omgidl")  # of definitions of messages of ROS 2
Bytes = bytes | memoryview
MESSAGE = struct.Struct("<HIQQ")  # channel, sequence, times of reception and of publishing [ns]
MAX_NS = 1 << 63  # of ROS, in the year 2262


@dataclass(frozen=True)
class Record:
    """Where a record lies: its head at `offset` [bytes], and how long its content behind that is."""

    opcode: int
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + HEAD.size + self.length


@dataclass(frozen=True)
class Damage:
    """A part of the file that is damaged.

    is_end: nothing behind it can be read. is_loss: what it held cannot be read either.
    """

    offset: int
    reason: str
    is_end: bool = False
    is_loss: bool = True


@dataclass(frozen=True)
class ScannedChannel:
    """A topic as a file describes it. Without a schema, type, encoding and definition are empty."""

    topic: str
    msgtype: str
    encoding: str  # of the definition: ros2msg or ros2idl
    definition: bytes
    message_encoding: str  # cdr
    metadata: dict[str, str]

    @property
    def problem(self) -> str:
        """Why its messages are none of ROS 2; empty when they are."""
        if self.message_encoding == "cdr" and self.msgtype and self.encoding in ENCODINGS:
            return ""
        return " ".join(filter(None, (self.message_encoding, self.encoding or "without a schema")))


class Channels(dict[int, ScannedChannel]):
    """The channels of a file by their numbers, as far as they were declared."""

    def __init__(self) -> None:
        super().__init__()
        self._schemas: dict[int, records.Schema] = {0: records.Schema(0, b"", "", "")}  # 0: without one

    def declare(self, opcode: int, content: Bytes) -> None:
        """Store a schema or a channel. Raises LookupError for a channel without its schema."""
        if opcode == Opcode.SCHEMA:
            schema = records.Schema.read(stream_of(content))
            self._schemas[schema.id] = schema
        elif opcode == Opcode.CHANNEL:
            found = records.Channel.read(stream_of(content))
            schema = self._schemas[found.schema_id]
            channel = ScannedChannel(
                found.topic, schema.name, schema.encoding, schema.data, found.message_encoding, found.metadata
            )
            if self.get(found.id) != channel:  # each chunk repeats it
                self[found.id] = channel


@dataclass(frozen=True)
class Summary:
    """What a file that was finished says of itself at its end.

    chunks: by their offsets, those that can be believed. problem: why the rest cannot. is_proven: it fits its
    checksum. start: where it begins; 0: not known.
    """

    is_finished: bool = False
    channels: Channels = field(default_factory=Channels)
    chunks: Mapping[int, records.ChunkIndex] = field(default_factory=dict)
    statistics: records.Statistics | None = None
    problem: str = ""
    is_proven: bool = False
    start: int = 0


class McapRecords:
    """An MCAP file, open for reading. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._file).st_size
        self.summary = self._read_summary()
        self.channels = self.summary.channels  # those of a chunk may be damaged
        self._chunk_offsets = sorted(self.summary.chunks)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes from an offset on, fewer at the file's end."""
        return os.pread(self._file, length, offset)

    def content(self, record: Record) -> bytes:
        return self.read(record.offset + HEAD.size, record.length)

    def walk(self) -> Iterator[Record | Damage]:
        """Yield the records of the data in the file's order, up to the one that ends them.

        Where they do not end so, the last item is Damage that is the end.
        """
        magic = self.read(0, len(MAGIC))
        if magic != MAGIC:
            is_cut = magic and MAGIC.startswith(magic)
            reason = "cut off in its first bytes" if is_cut else "no MCAP file: it begins otherwise"
            yield Damage(0, reason if self.size else "the file is empty", is_end=True)
            return
        offset = len(MAGIC)
        while True:
            if offset == self.summary.start:
                yield Damage(offset, "nothing ends its data", is_end=True, is_loss=False)
                return
            record, problem = self._record_at(offset)
            if record is None:
                offset, before = self._find_chunk(offset), offset
                reason = f"{problem}; read on from byte {offset}" if offset else problem
                yield Damage(before, reason, is_end=not offset)
                if not offset:
                    return
                continue
            if problem:
                yield Damage(offset, problem, is_loss=not record.opcode)
            yield record
            if record.opcode == Opcode.DATA_END:
                return
            offset = record.end

    def _record_at(self, offset: int) -> tuple[Record | None, str]:
        """Return the record that begins there, and what is wrong with it or why there is none.

        Of one that cannot stand there the opcode is 0.
        """
        head = self.read(offset, HEAD.size)
        if len(head) < HEAD.size:
            place = "within a record" if head else "between two records"
            return None, f"cut off {place}, and without an index"
        known = self.summary.chunks.get(offset)
        if known is not None and head != HEAD.pack(Opcode.CHUNK, known.chunk_length - HEAD.size):
            whole = Record(Opcode.CHUNK, offset, known.chunk_length - HEAD.size)
            return whole, "the head of a chunk is damaged: read as the index names it"
        record = Record(head[0], offset, HEAD.unpack(head)[1])
        is_end = record.opcode == Opcode.DATA_END
        is_within = record.end <= self.size or 0 < record.opcode <= Opcode.DATA_END
        if (
            not (record.opcode and is_within)
            or record.length > MAX_BYTES
            or (is_end and record.length != END_BYTES)
        ):
            return None, "unreadable from here on: no record begins here"
        if record.end > self.size:
            return None, f"cut off within a record: {self.size - offset} bytes of {record.end - offset}"
        following = self._next_known(offset)
        if following and record.end > following:
            return None, "the length of a record is damaged"
        if self._is_other(record):
            return replace(record, opcode=0), f"a record of opcode {record.opcode} cannot stand here"
        return record, ""

    def _is_other(self, record: Record) -> bool:
        """Return whether a record cannot be of its kind: that was damaged, or its length."""
        if record.opcode == Opcode.MESSAGE_INDEX:  # tells its length once more
            inner = int.from_bytes(self.read(record.offset + HEAD.size + 2, 4), "little")
            return record.length != inner + 6
        if record.opcode == Opcode.CHUNK and self.summary.is_proven and self._chunk_offsets:
            return record.offset not in self.summary.chunks
        return record.opcode not in DATA_OPCODES

    def _next_known(self, offset: int) -> int:
        """Return where the next chunk that the index names begins; 0: nowhere."""
        number = bisect_right(self._chunk_offsets, offset)
        return self._chunk_offsets[number] if number < len(self._chunk_offsets) else 0

    def _find_chunk(self, offset: int) -> int:
        """Return where the next chunk behind a place begins; 0: nowhere."""
        if following := self._next_known(offset):
            return following
        overlap = CHUNK_MARK_AT + len(CHUNK_MARKS[0])
        for begin in range(offset + 1, self.size, SEARCH_BYTES):
            block = self.read(begin, SEARCH_BYTES + overlap)
            for start in sorted(_find_marks(block)):
                if self._is_chunk(begin + start):
                    return begin + start
        return 0

    def _is_chunk(self, offset: int) -> bool:
        head = self.read(offset, HEAD.size)
        return head[0] == Opcode.CHUNK and Record(head[0], offset, HEAD.unpack(head)[1]).end <= self.size

    def _read_summary(self) -> Summary:
        end = max(0, self.size - FOOTER_BYTES)
        footer = self.read(end, FOOTER_BYTES)
        if not footer.endswith(MAGIC) or self.size < FOOTER_BYTES + len(MAGIC):
            return Summary()
        start, _, checksum = struct.unpack_from("<QQI", footer, HEAD.size)
        if footer[: HEAD.size] != HEAD.pack(Opcode.FOOTER, 20) or not len(MAGIC) <= (start or end) <= end:
            return Summary(is_finished=True, problem="its footer is damaged")
        data = self.read(start or end, end - (start or end))
        if checksum and zlib.crc32(data + footer[: HEAD.size + 16]) != checksum:
            return Summary(is_finished=True, problem="its index is damaged: it has another checksum")
        try:
            summary = self._parse_summary(list(split_records(data)), is_proven=bool(checksum))
        except Exception as error:  # the library raises many kinds for damaged bytes
            return Summary(is_finished=True, problem=f"its index is damaged: {describe(error)}")
        return replace(summary, start=start or end)

    def _parse_summary(self, parts: list[tuple[int, Bytes]], *, is_proven: bool) -> Summary:
        """is_proven: its checksum fits. Without one, a chunk is believed where the file has one."""
        channels, chunks, statistics, problem = Channels(), {}, None, ""
        try:
            for kind in (Opcode.SCHEMA, Opcode.CHANNEL):  # in this order: a channel names a schema
                for _, content in (part for part in parts if part[0] == kind):
                    channels.declare(kind, content)
        except LookupError:  # schemas are not repeated here: the chunks have all
            channels = Channels()
        for opcode, content in parts:
            if opcode == Opcode.STATISTICS:
                statistics = records.Statistics.read(stream_of(content))
            elif opcode == Opcode.CHUNK_INDEX:
                chunk = records.ChunkIndex.read(stream_of(content))
                offset = chunk.chunk_start_offset
                if is_proven or self.read(offset, HEAD.size) == HEAD.pack(
                    Opcode.CHUNK, chunk.chunk_length - HEAD.size
                ):
                    chunks[offset] = chunk
                else:
                    problem = f"its index names a chunk at byte {offset}, where there is none"
        return Summary(True, channels, chunks, statistics, problem, is_proven)


def _find_marks(block: bytes) -> Iterator[int]:
    """Yield where in some bytes the records begin that look like chunks."""
    for mark in CHUNK_MARKS:
        at = block.find(mark)
        while at >= 0:
            if at >= CHUNK_MARK_AT:
                yield at - CHUNK_MARK_AT
            at = block.find(mark, at + 1)


def split_records(data: Bytes) -> Iterator[tuple[int, Bytes]]:
    """Yield opcode and content of each record in some bytes. Raises ValueError for one that is cut off."""
    offset = 0
    while offset < len(data):
        opcode, length = HEAD.unpack_from(data, offset)
        offset += HEAD.size
        if offset + length > len(data):
            raise ValueError("cut off")
        yield opcode, data[offset : offset + length]
        offset += length


def read_message(content: Bytes) -> tuple[int, int, int, int]:
    """Return what MESSAGE names. Raises ValueError or struct.error for what is no message of ROS."""
    found: tuple[int, int, int, int] = MESSAGE.unpack_from(content)
    if found[2] >= MAX_NS:
        raise ValueError(f"found a message at {found[2]} ns, expected one before {MAX_NS} ns")
    return found


def unpack_chunk(content: bytes) -> tuple[records.Chunk, bytes]:
    """Return a chunk, and the records in it. Raises what the library does for damaged bytes: anything."""
    chunk = records.Chunk.read(stream_of(content))
    stream, length = get_chunk_data_stream(chunk, validate_crc=True)
    if length != chunk.uncompressed_size:
        raise ValueError(f"found {length} bytes, expected {chunk.uncompressed_size}")
    return chunk, stream.read(length)


def stream_of(content: Bytes) -> ReadDataStream:
    return ReadDataStream(BytesIO(content))


def describe(error: Exception) -> str:
    return str(error) or type(error).__name__


def describe_damage(record: Record, error: Exception) -> str:
    """Return in words why a record cannot be read."""
    name = Opcode(record.opcode).name.lower().replace("_", " ")
    return f"{name} of {record.length} bytes is damaged: {describe(error)}"


def file_number(path: Path) -> tuple[int, str]:
    """Return a key that sorts a bag's files as they were written: `run_10.mcap` comes after `run_9.mcap`."""
    number = path.stem.rpartition("_")[2]
    return (int(number) if number.isdecimal() else -1, path.name)


def bag_size(path: Path) -> int:
    """Return the bytes of a bag's MCAP files. Raises OSError."""
    return sum(file.stat().st_size for file in path.glob("*.mcap"))
