# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads an MCAP file record by record, as far as it goes, and compares it with its checksums and its index.

One chunk is in memory at a time, and no index is needed: a recorder that was killed wrote none.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from mcap import records
from mcap.opcode import Opcode

from remote_inference.bags.storage.mcap_records import (
    HEAD,
    MAGIC,
    MESSAGE,
    Bytes,
    Damage,
    McapRecords,
    Record,
    ScannedChannel,
    describe_damage,
    read_message,
    split_records,
    stream_of,
    unpack_chunk,
)


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
class Finished:
    """The end of a file that its writer finished. index_problem: how the index differs from what was read."""

    offset: int
    index_problem: str


Item = Messages | MetadataRecord | Damage | Finished
Sizes = tuple[int, str, int, int]  # bytes of a chunk's record, compression, bytes before and after it
Times = tuple[int, int]  # of a chunk's first and last message [ns]
OnBytes = Callable[[int], None]  # is called with the number of bytes read since the last call


def scan_file(path: Path, on_bytes: OnBytes = lambda _: None) -> Iterator[Item]:
    """Yield what a file holds. The last item is Finished, or Damage that is the end. Raises OSError."""
    with closing(McapRecords(path)) as file:
        read = 0
        for item in _Scan(file).items():
            on_bytes(item.offset - read)
            read = item.offset
            yield item
        on_bytes(file.size - read)


class _Scan:
    def __init__(self, file: McapRecords) -> None:
        self._file = file
        self._chunks: dict[int, tuple[Sizes, Times | None, set[int]]] = {}  # by offset; with its channels
        self._counts: Counter[int] = Counter()  # messages by channel
        self._checksum: int | None = zlib.crc32(MAGIC)  # of all so far; None: something was skipped
        self._problem = ""
        self._read: dict[int, Callable[[Record, bytes], Item | None]] = {
            Opcode.CHUNK: self._read_chunk,
            Opcode.SCHEMA: self._declare,
            Opcode.CHANNEL: self._declare,
            Opcode.MESSAGE: lambda record, content: Messages(record.offset, [self._message(content)]),
            Opcode.METADATA: _read_metadata,
            Opcode.ATTACHMENT: _check_attachment,
        }

    def items(self) -> Iterator[Item]:
        for record in self._file.walk():
            if isinstance(record, Damage):
                self._checksum = None
                yield record
                continue
            content = self._file.content(record)
            if record.opcode == Opcode.DATA_END:
                yield self._finish(record, content)
                return
            if self._checksum is not None:
                head = HEAD.pack(record.opcode, record.length)
                self._checksum = zlib.crc32(content, zlib.crc32(head, self._checksum))
            try:
                item = self._read[record.opcode](record, content) if record.opcode in self._read else None
            except Exception as error:  # the library raises many kinds for damaged bytes
                yield Damage(record.offset, describe_damage(record, error))
                continue
            if item is not None:
                yield item

    def _declare(self, record: Record, content: bytes) -> None:
        self._file.channels.declare(record.opcode, content)

    def _read_chunk(self, record: Record, content: bytes) -> Item:
        chunk, data = unpack_chunk(content)
        found, numbers, times = [], set(), set()
        for opcode, part in split_records(memoryview(data)):
            if opcode == Opcode.MESSAGE:
                found.append(self._message(part))
                numbers.add(MESSAGE.unpack_from(part)[0])
                times.add(found[-1].log_time_ns)
            else:
                self._file.channels.declare(opcode, part)
        said = chunk.message_start_time, chunk.message_end_time
        if times and said != (min(times), max(times)):
            self._problem = f"a chunk at byte {record.offset} has other times than its messages"
        sizes = record.end - record.offset, chunk.compression, len(chunk.data), chunk.uncompressed_size
        self._chunks[record.offset] = sizes, said if times else None, numbers
        return Messages(record.offset, found)

    def _message(self, content: Bytes) -> ScannedMessage:
        """Return a message with its channel. Raises LookupError without one."""
        number, sequence, log_time_ns, publish_time_ns = read_message(content)
        channel = self._file.channels[number]
        self._counts[number] += 1
        return ScannedMessage(channel, sequence, log_time_ns, publish_time_ns, bytes(content[MESSAGE.size :]))

    def _finish(self, record: Record, content: bytes) -> Item:
        summary = self._file.summary
        if not summary.is_finished:
            return Damage(record.offset, "cut off within its index", is_end=True, is_loss=False)
        said = int.from_bytes(content, "little")
        if said and self._checksum not in {None, said}:
            self._problem = "its data have another checksum: something in them changed"
        return Finished(record.offset, summary.problem or self._problem or self._compare_index())

    def _compare_index(self) -> str:
        """Return how the index, by which readers find the chunks, differs from what was read."""
        index, statistics = self._file.summary.chunks, self._file.summary.statistics
        if index and index.keys() != self._chunks.keys():
            return f"its index names {len(index)} chunks, and {len(self._chunks)} are readable"
        for offset, one in index.items():
            sizes, times, numbers = self._chunks[offset]
            said = one.chunk_length, one.compression, one.compressed_size, one.uncompressed_size
            is_other = times not in {None, (one.message_start_time, one.message_end_time)}
            lacks = bool(one.message_index_offsets) and numbers - {*one.message_index_offsets}
            if said != sizes or is_other or lacks:
                return f"its index has other times, sizes or topics of the chunk at byte {offset}"
        if statistics is not None:
            read = self._counts.total()
            if statistics.message_count != read:
                return f"its index counts {statistics.message_count} messages, and {read} are readable"
            counts = {number: count for number, count in statistics.channel_message_counts.items() if count}
            if counts and counts != self._counts:
                return "its index counts other messages of a topic than are readable"
        return ""


def _read_metadata(record: Record, content: bytes) -> Item:
    found = records.Metadata.read(stream_of(content))
    return MetadataRecord(record.offset, found.name, found.metadata)


def _check_attachment(_: Record, content: bytes) -> None:
    """Raise ValueError for an attachment that does not fit its checksum."""
    said = int.from_bytes(content[-4:], "little")
    if said and zlib.crc32(content[:-4]) != said:
        raise ValueError("it has another checksum")
