# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""rosbag2 bags (MCAP, SQLite) read without a running ROS graph, message by message, over all of their files.

A message is read by the definition that its bag carries. A bag in which one of this package's messages has
another definition than this release's is refused when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml
from mcap.reader import make_reader
from rosbags.interfaces import Connection, MessageDefinitionFormat
from rosbags.rosbag2 import Reader, ReaderError
from rosbags.serde import SerdeError

from remote_inference.bags.storage.bag_metadata import METADATA_NAME
from remote_inference.bags.storage.bag_records import CONTRACT_KEY, QUOTED_CONTRACT_KEY, BagError, BagTopic
from remote_inference.bags.storage.mcap_scan import file_number
from remote_inference.bags.storage.message_decoder import MessageDecoder

MAX_METADATA_DEPTH = 50  # rosbag2 writes about five
_YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, ten times as fast

PACKAGE = "remote_inference"
# Topics of a robot of this package, below its namespace and PACKAGE.
TOPIC_TYPES: Mapping[str, str] = {
    "executed": f"{PACKAGE}/msg/ExecutedAction",
    "state": f"{PACKAGE}/msg/ClientState",
    "observation": f"{PACKAGE}/msg/Observation",
    "chunk": f"{PACKAGE}/msg/ActionChunk",
    "decisions": f"{PACKAGE}/msg/Decisions",
    "watchdog": f"{PACKAGE}/msg/WatchdogState",
}

Window = tuple[int | None, int | None]  # [ns] of reception
Definition = tuple[str, str, bool]  # a type's name, its text, and whether that is IDL
OnProgress = Callable[[float], None]  # is called with the fraction of the bag that is read


def no_progress(_: float) -> None:
    """Do nothing with the progress."""


class BagReader(AbstractContextManager["BagReader"]):
    """A rosbag2 bag, open for reading: its topics, and its messages in order of reception."""

    def __init__(self, path: Path) -> None:
        """Open it. Raises BagError when there is no bag at `path`, or it was not finished."""
        self.path = path
        with _reading(path):
            self._reader = _open_reader(path)
            definitions: list[tuple[str, Definition]] = [
                (c.topic, (c.msgtype, c.msgdef.data, c.msgdef.format == MessageDefinitionFormat.IDL))
                for c in self._reader.connections
            ]
            self._decoder, unreadable = _decoder_of(tuple(one for _, one in definitions))
            # Why the messages of some topics cannot be read.
            self._unreadable = {topic: unreadable[one] for topic, one in definitions if one in unreadable}
            self.topics = {
                c.topic: BagTopic(c.topic, c.msgtype, tuple(getattr(c.ext, "offered_qos_profiles", ())))
                for c in self._reader.connections
            }
            # Text of the recorded robot's contract, empty without one.
            self.contract = _contract(self._reader.storage.metadata.custom or {})
            # Reception of the first and of the last message; rosbags' end lies 1 ns after the last.
            self.message_count: int = self._reader.message_count
            self.start_ns: int = self._reader.start_time if self.message_count else 0
            self.end_ns: int = self._reader.end_time - 1 if self.message_count else 0
        self._require_this_release()

    def _require_this_release(self) -> None:
        """Raise BagError for a topic of this package whose messages are not those of this release."""
        for topic, found in self.topics.items():
            kind = topic.rpartition(f"/{PACKAGE}/")[2]
            expected = TOPIC_TYPES.get(kind, found.msgtype)
            problem = self._unreadable.get(topic, "") if expected.startswith(f"{PACKAGE}/") else ""
            if found.msgtype != expected:
                problem = f"found {found.msgtype}, expected {expected}"
            if problem:
                self.close()
                raise BagError(f"{self.path}: {topic}: {problem}")

    def raw_messages(
        self,
        topic_names: Collection[str] = (),
        window_ns: Window = (None, None),
        on_progress: OnProgress = no_progress,
    ) -> Iterator[tuple[str, int, bytes]]:
        """Yield (topic name, reception [ns], CDR bytes) of the named topics, or of all of them.

        window_ns: from the first instant on and before the second; None: no such bound.

        Raises BagError when a topic is not in the bag, or the bag is damaged.
        """
        records = self._reader.messages(self._select(topic_names), *window_ns)
        while True:
            with _reading(self.path):  # not around `yield`: the errors of who reads are their own
                record = next(records, None)
            if record is None:
                return
            connection, stamp_ns, cdr = record
            on_progress((stamp_ns - self.start_ns) / max(1, self.end_ns - self.start_ns))
            yield connection.topic, stamp_ns, cdr

    def messages(
        self,
        topic_names: Collection[str] = (),
        window_ns: Window = (None, None),
        on_progress: OnProgress = no_progress,
    ) -> Iterator[tuple[str, int, Any]]:
        """Yield (topic name, reception [ns], message); numeric sequences of a message are numpy arrays.

        Arguments and errors are those of `raw_messages`; also raises BagError as `decode`.
        """
        for topic, stamp_ns, cdr in self.raw_messages(topic_names, window_ns, on_progress):
            yield topic, stamp_ns, self.decode(topic, stamp_ns, cdr)

    def decode(self, topic: str, stamp_ns: int, cdr: bytes) -> Any:
        """Return the message in the bytes that `raw_messages` yielded for a topic.

        Raises BagError when it does not fit its definition, or that cannot be read.
        """
        if topic in self._unreadable:
            raise BagError(f"{self.path}: {topic}: {self._unreadable[topic]}")
        with _reading(self.path, f"{topic} at {stamp_ns} ns: "):
            return self._decoder.decode(self.topics[topic].msgtype, cdr)

    def seconds(self, t_ns: int) -> float:
        return (t_ns - self.start_ns) * 1e-9

    def records(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield name and values of the metadata records of an MCAP bag, in order. See `bag_records`.

        Raises BagError when a file's index is damaged.
        """
        for file in sorted(self.path.glob("*.mcap"), key=file_number):
            with _reading(self.path, f"{file.name}: "), file.open("rb") as data:
                found = [(record.name, record.metadata) for record in make_reader(data).iter_metadata()]
            yield from found

    def _select(self, topic_names: Collection[str]) -> list[Connection]:
        for name in topic_names:
            if name not in self.topics:
                present = ", ".join(sorted(self.topics)) or "nothing"
                raise BagError(f"{self.path}: topic {name} is not in the bag, which holds {present}")
        return [c for c in self._reader.connections if not topic_names or c.topic in topic_names]

    def close(self) -> None:
        """Close the bag's files; a second call does nothing."""
        if self._reader.is_open:
            self._reader.close()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


@contextmanager
def _reading(path: Path, place: str = "") -> Iterator[None]:
    """Turn what rosbags raises for a damaged bag, which may be anything, into BagError."""
    try:
        yield
    except BagError:
        raise
    except (ReaderError, OSError, SerdeError, ValueError) as error:
        raise BagError(f"{path}: {place}{error}") from error
    except Exception as error:
        raise BagError(f"{path}: {place}the bag is damaged ({type(error).__name__})") from error


def _open_reader(path: Path) -> Reader:
    if path.is_file():
        raise BagError(f"{path}: found a file, expected the folder of a bag, with {METADATA_NAME}")
    try:
        _require_shallow(path / METADATA_NAME)
        reader = Reader(path)
        reader.open()
    except FileNotFoundError as error:
        if path.is_dir() and any(path.glob("*.mcap")):
            advice = f"remote-inference verify {path} --repair NEW_FOLDER"
            reason = (
                f"no {METADATA_NAME}: it is still recorded, or its recorder was killed; `{advice}` mends it"
            )
        else:
            reason = "no bag there"
        raise BagError(f"{path}: {reason}") from error
    return reader


def _require_shallow(metadata: Path) -> None:
    """Refuse a deeply nested file: rosbags' parser would take hours for some kilobytes of brackets."""
    depth = 0
    with metadata.open(encoding="utf-8") as file:
        for event in yaml.parse(file, _YAML_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_METADATA_DEPTH:
                raise ValueError(f"{metadata.name}: found more than {MAX_METADATA_DEPTH} nested values")


def _contract(custom_data: Mapping[str, Any]) -> str:
    quoted = str(custom_data.get(QUOTED_CONTRACT_KEY, ""))
    return str(custom_data.get(CONTRACT_KEY, "")) or unquote(quoted)


@lru_cache(maxsize=16)  # making it is most of opening a bag, and the next bag has the same types
def _decoder_of(definitions: tuple[Definition, ...]) -> tuple[MessageDecoder, dict[Definition, str]]:
    """Return a decoder of types, and why some of them cannot be read.

    It has the bag's own definitions, and the installed ones where the bag has none.
    """
    decoder = MessageDecoder()
    unreadable: dict[Definition, str] = {}
    for definition in definitions:
        msgtype, text, is_idl = definition
        try:
            decoder.add_type(msgtype, text, is_idl=is_idl)
            if problem := decoder.find_difference(msgtype):
                unreadable[definition] = problem
        except Exception as error:  # rosbags raises many kinds; the other topics are readable
            reason, *definition_lines = str(error).splitlines() or [type(error).__name__]  # it quotes
            more = " ..." if definition_lines else ""
            unreadable[definition] = f"{reason}{more}"
    return decoder, unreadable
