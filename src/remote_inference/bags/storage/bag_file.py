# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One file of a bag, MCAP or SQLite, open for reading in the order of time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from operator import itemgetter
from pathlib import Path
from struct import Struct
from typing import Any

from mcap import records
from mcap.opcode import Opcode
from rosbags.interfaces import MessageDefinitionFormat
from rosbags.rosbag2.storage_sqlite3 import Sqlite3Reader

from remote_inference.bags.storage.bag_records import BagTopic, absolute_name
from remote_inference.bags.storage.mcap_records import (
    HEAD,
    MAX_NS,
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
from remote_inference.bags.storage.split_file import Channel

RawMessage = tuple[int, str, bytes]  # reception [ns], topic and CDR bytes
Window = tuple[int | None, int | None]  # [ns] of reception: from the first on and before the second
Source = tuple[int, Iterator[RawMessage]]  # messages in order, none before an instant [ns]

_TIMES = Struct("<QQ")  # of a chunk's first and last message [ns]
_LOOSE_BYTES = 1 << 20  # of messages outside of chunks that are read at once


class BagFile(ABC):
    """A file of a bag. start_ns, end_ns: reception of its first and last message; both 0 without any."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.start_ns = self.end_ns = 0
        self.topics: dict[str, Channel] = {}
        self.counts: Mapping[str, int] | None = None  # messages by topic; None: the file does not say
        self.remarks: list[str] = []  # what of it is read otherwise than it says, or left out
        self.left_out: set[str] = set()  # topics whose messages are none of ROS 2
        self.losses: list[str] = []  # what of it is damaged so that it cannot be read

    @abstractmethod
    def sources(self, topics: Collection[str], window_ns: Window) -> Iterable[Source]:
        """Return where the messages of some topics come from: to be merged by time."""

    def records(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield name and values of the metadata records, in the file's order."""
        return iter(())

    @abstractmethod
    def close(self) -> None:
        """Close the file; a second call does nothing."""


def in_order(sources: Iterable[Source]) -> Iterator[RawMessage]:
    """Yield the messages of several sources by time; a source is begun when its first message is due.

    Those of one time keep the order of their sources.
    """
    waiting = sorted(sources, key=lambda source: source[0])[::-1]
    heap: list[tuple[int, int, RawMessage, Iterator[RawMessage]]] = []
    begun = 0
    while waiting or heap:
        if waiting and (not heap or waiting[-1][0] <= heap[0][0]):
            _, messages = waiting.pop()
            begun += 1
            number = begun
        else:
            _, number, message, messages = heappop(heap)
            yield message
        following = next(messages, None)
        if following is not None:
            heappush(heap, (following[0], number, following, messages))


@dataclass
class _Part:
    """A chunk, or messages outside of chunks that follow one another. Times of reception in ns."""

    record: Record  # of several messages the first, with the length of all
    start_ns: int
    end_ns: int
    channels: Collection[int] = ()  # whose messages it has; empty: not known


class McapBagFile(BagFile):
    """An MCAP file. Its chunks are found by walking over the file, not by an index that may lie."""

    def __init__(self, path: Path) -> None:
        """Open it. Raises OSError, and what the library raises for damaged bytes."""
        super().__init__(path)
        self._file = McapRecords(path)
        # Otherwise the chunks tell the channels, or nothing proves their times.
        self._is_indexed = self._file.summary.is_proven and bool(self._file.channels)
        self._parts: list[_Part] = []
        self._metadata: list[tuple[str, dict[str, str]]] = []
        for item in self._file.walk():
            if isinstance(item, Damage):
                text = f"{path.name}: at byte {item.offset}: {item.reason}"
                (self.losses if item.is_loss else self.remarks).append(text)
                continue
            try:
                self._add(item)
            except Exception as error:  # the library raises many kinds for damaged bytes
                self.losses.append(self._describe(item, error))
        if self._file.summary.problem:
            self.remarks.append(f"{path.name}: {self._file.summary.problem}")
        self._numbers: dict[str, list[int]] = {}  # of the channels of each topic
        for number, channel in self._file.channels.items():
            self._add_topic(number, channel)
        filled = [part for part in self._parts if part.end_ns]
        self.start_ns = min((part.start_ns for part in filled), default=0)
        self.end_ns = max((part.end_ns for part in filled), default=0)
        statistics = self._file.summary.statistics
        said = statistics.channel_message_counts if statistics else {}
        if statistics and (said or not statistics.message_count):  # else it does not count them by channel
            self.counts = {
                topic: sum(said.get(number, 0) for number in numbers)
                for topic, numbers in self._numbers.items()
            }

    def _add(self, record: Record) -> None:
        if record.opcode == Opcode.CHUNK:
            start_ns, end_ns = _TIMES.unpack(self._file.read(record.offset + HEAD.size, _TIMES.size))
            index = self._file.summary.chunks.get(record.offset) if self._is_indexed else None
            if index and (index.message_start_time, index.message_end_time) == (start_ns, end_ns):
                self._parts.append(_Part(record, start_ns, end_ns, index.message_index_offsets))
            else:
                self._parts.append(self._survey(record))
        elif record.opcode == Opcode.MESSAGE:
            _, _, time_ns, _ = read_message(self._file.read(record.offset + HEAD.size, MESSAGE.size))
            self._add_loose(record, time_ns)
        elif record.opcode == Opcode.METADATA:
            found = records.Metadata.read(stream_of(self._file.content(record)))
            self._metadata.append((found.name, found.metadata))
        elif record.opcode in {Opcode.SCHEMA, Opcode.CHANNEL}:
            self._file.channels.declare(record.opcode, self._file.content(record))

    def _survey(self, record: Record) -> _Part:
        """Read a chunk for its channels and times, which nothing proves."""
        part = _Part(record, MAX_NS, 0)
        for opcode, content in self._split(part):
            if opcode == Opcode.MESSAGE:
                number, _, time_ns, _ = read_message(content)
                part.start_ns, part.end_ns = min(part.start_ns, time_ns), max(part.end_ns, time_ns)
                if number not in self._file.channels:
                    raise ValueError(f"nothing describes channel {number}")
            else:
                self._file.channels.declare(opcode, content)
        return part

    def _describe(self, record: Record, error: Exception) -> str:
        return f"{self.path.name}: at byte {record.offset}: {describe_damage(record, error)}"

    def _split(self, part: _Part) -> Iterator[tuple[int, Bytes]]:
        record = part.record
        if record.opcode == Opcode.CHUNK:
            return split_records(memoryview(unpack_chunk(self._file.content(record))[1]))
        return split_records(memoryview(self._file.read(record.offset, HEAD.size + record.length)))

    def _add_loose(self, record: Record, time_ns: int) -> None:
        last = self._parts[-1] if self._parts else None
        if (
            last
            and last.record.opcode == Opcode.MESSAGE
            and last.record.end == record.offset < last.record.offset + _LOOSE_BYTES
        ):
            last.record = replace(last.record, length=last.record.length + record.end - record.offset)
            last.start_ns, last.end_ns = min(last.start_ns, time_ns), max(last.end_ns, time_ns)
        else:
            self._parts.append(_Part(record, time_ns, time_ns))

    def _add_topic(self, number: int, channel: ScannedChannel) -> None:
        name = absolute_name(channel.topic)
        known = self.topics.get(name)
        if channel.problem:
            self._leave_out(channel.topic, f"found {channel.problem}, expected messages of ROS 2")
        elif known is not None and known.topic.msgtype != channel.msgtype:
            self._leave_out(channel.topic, f"found {channel.msgtype}, and {known.topic.msgtype} before")
        else:
            self.topics.setdefault(name, Channel.read(name, channel))
            self._numbers.setdefault(name, []).append(number)

    def _leave_out(self, topic: str, why: str) -> None:
        self.left_out.add(absolute_name(topic))
        self.remarks.append(f"{self.path.name}: {topic} is left out: {why}")

    def sources(self, topics: Collection[str], window_ns: Window) -> Iterable[Source]:
        wanted = {number: topic for topic in topics for number in self._numbers.get(topic, ())}
        first_ns, end_ns = window_ns
        for part in self._parts:
            is_wanted = not part.channels or any(number in wanted for number in part.channels)
            is_early = first_ns is not None and part.end_ns < first_ns
            if is_wanted and not is_early and (end_ns is None or part.start_ns < end_ns):
                yield part.start_ns, self._messages(part, wanted, window_ns)

    def _messages(self, part: _Part, wanted: Mapping[int, str], window_ns: Window) -> Iterator[RawMessage]:
        """Yield the messages of a part by time; it is read when the first one is asked for."""
        first_ns, end_ns = window_ns[0] or 0, MAX_NS if window_ns[1] is None else window_ns[1]
        found: list[RawMessage] = []
        try:
            for opcode, content in self._split(part):
                if opcode == Opcode.MESSAGE:
                    number, _, stamp_ns, _ = read_message(content)
                    if not part.start_ns <= stamp_ns <= part.end_ns:
                        raise ValueError("its messages have other times than the index says")
                    if number in wanted and first_ns <= stamp_ns < end_ns:
                        found.append((stamp_ns, wanted[number], bytes(content[MESSAGE.size :])))
        except Exception as error:  # the library raises many kinds for damaged bytes
            raise ValueError(self._describe(part.record, error)) from error
        yield from sorted(found, key=itemgetter(0))

    def records(self) -> Iterator[tuple[str, dict[str, str]]]:
        return iter(self._metadata)

    def close(self) -> None:
        self._file.close()


class SqliteBagFile(BagFile):
    """An SQLite file, read by rosbags."""

    def __init__(self, path: Path) -> None:
        """Open it. Raises OSError, and what the library raises for damaged bytes."""
        super().__init__(path)
        self._file: Any = Sqlite3Reader(path)
        self._file.open()
        known = self._file.metadata
        self.start_ns, self.end_ns = (known.start_time, known.end_time - 1) if known.message_count else (0, 0)
        counts: Counter[str] = Counter()
        for one in self._file.connections:
            topic = BagTopic(one.topic, one.msgtype, tuple(getattr(one.ext, "offered_qos_profiles", ())))
            encoding = "ros2idl" if one.msgdef.format == MessageDefinitionFormat.IDL else "ros2msg"
            self.topics[one.topic] = Channel(topic, one.msgdef.data, one.digest, encoding)
            counts[one.topic] += one.msgcount
        self.counts = counts

    def sources(self, topics: Collection[str], window_ns: Window) -> Iterable[Source]:
        wanted = [one for one in self._file.connections if one.topic in topics]
        if wanted:
            messages = self._file.messages(wanted, *window_ns)
            yield self.start_ns, ((stamp_ns, one.topic, data) for one, stamp_ns, data in messages)

    def close(self) -> None:
        if self._file.dbconn:
            self._file.close()


FILE_TYPES: Mapping[str, Callable[[Path], BagFile]] = {"mcap": McapBagFile, "sqlite3": SqliteBagFile}
