# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""rosbag2 bags (MCAP) written from serialized messages and read back, without a running ROS graph.

Every bag carries the full text of its message definitions, comments included. So Foxglove and PlotJuggler
open the bag as it is, and it stays readable when the installed messages have grown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import yaml
from rosbags.interfaces import Connection, MessageDefinitionFormat, Nodetype, Qos
from rosbags.rosbag2 import Reader, ReaderError, StoragePlugin, Writer, WriterError
from rosbags.serde import SerdeError
from rosbags.typesys import Stores, TypesysError, get_types_from_idl, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from remote_inference.errors import UserError
from remote_inference.paths import share_path

if TYPE_CHECKING:
    from typing_extensions import Self

CONTRACT_KEY = "remote_inference.contract"  # of the custom data in metadata.yaml
MAX_METADATA_DEPTH = 50  # rosbag2 writes about five
_SEPARATOR = "=" * 80 + "\n"


class BagError(UserError):
    """A bag cannot be written or read; names the bag and what is wrong with it."""


@dataclass(frozen=True)
class BagTopic:
    """One recorded topic. `offered_qos`: the QoS of its publishers, which `ros2 bag play` offers again."""

    name: str
    msgtype: str  # as in "std_msgs/msg/Header"
    offered_qos: tuple[Qos, ...] = ()


def message_definition(msgtype: str) -> str:
    """Return the text of an installed message and of all messages nested in it, in the form rosbag2 embeds.

    Raises BagError when `msgtype` is not of the form `package/msg/Name`, or no such .msg file is installed.
    """
    texts: dict[str, str] = {}
    waiting = [msgtype]
    while waiting:
        name = waiting.pop(0)
        if name in texts:
            continue
        texts[name] = text = _installed_text(name)
        waiting += _nested_types(text, name)
    first, *others = texts.items()
    return first[1] + "".join(f"\n{_SEPARATOR}MSG: {n.replace('/msg/', '/')}\n{t}" for n, t in others)


def _installed_text(msgtype: str) -> str:
    package, kind, name = [*msgtype.split("/"), "", ""][:3]
    if kind != "msg" or not name or msgtype.count("/") != 2:
        raise BagError(f"message type {msgtype!r}: expected the form 'package/msg/Name'")
    try:
        return share_path("msg", f"{name}.msg", package=package).read_text(encoding="utf-8")
    except (OSError, LookupError, ImportError) as error:
        raise BagError(f"message type {msgtype!r}: no definition is installed ({error})") from error


def _nested_types(text: str, msgtype: str) -> list[str]:
    _, fields = get_types_from_msg(text, msgtype)[msgtype]
    # A field is (kind, value). Of an array or a sequence, value is (element, length); element is a field.
    elements: list[Any] = [
        value[0] if kind in {Nodetype.ARRAY, Nodetype.SEQUENCE} else (kind, value)
        for _, (kind, value) in fields
    ]
    return [value for kind, value in elements if kind == Nodetype.NAME]


class BagWriter:
    """Writes one new bag from CDR bytes as received. Not thread-safe.

    Leaving the context finishes the bag even after an error, so the messages until then stay readable.
    `contract` is the text of the recorded robot's contract, with joints, units and limits.
    Raises BagError when `path` exists already or the bag cannot be created.
    """

    def __init__(self, path: Path, topics: Iterable[BagTopic] = (), *, contract: str = "") -> None:
        self.path = path
        self.counts: dict[str, int] = {}  # messages written, by topic
        self._connections: dict[str, Connection] = {}
        self._typestore = get_typestore(Stores.EMPTY)
        try:
            self._writer = Writer(path, version=9, storage_plugin=StoragePlugin.MCAP)
            if contract:
                self._writer.set_custom_data(CONTRACT_KEY, contract)
            self._writer.open()
        except WriterError as error:
            raise BagError(f"{path}: exists already, a bag is never overwritten") from error
        except OSError as error:
            raise BagError(f"{path}: cannot create the bag: {error.strerror}") from error
        for topic in topics:
            self.add_topic(topic)

    def __contains__(self, topic_name: str) -> bool:
        return topic_name in self._connections

    def add_topic(self, topic: BagTopic) -> None:
        """Declare a topic, before its first message.

        Raises BagError when it is declared already, or its message definition is not installed.
        """
        if topic.name in self._connections:
            raise BagError(f"{self.path}: topic {topic.name} is declared already")
        definition = message_definition(topic.msgtype)
        self._typestore.register(get_types_from_msg(definition, topic.msgtype))
        self._connections[topic.name] = self._writer.add_connection(
            topic.name,
            topic.msgtype,
            msgdef=definition,
            rihs01=self._typestore.hash_rihs01(topic.msgtype),
            offered_qos_profiles=topic.offered_qos,
        )
        self.counts[topic.name] = 0

    def write(self, topic_name: str, stamp_ns: int, cdr: bytes) -> None:
        """Append one message. stamp_ns: its reception by wall clock. cdr: its bytes with the CDR header."""
        try:
            connection = self._connections[topic_name]
        except KeyError:
            raise BagError(f"{self.path}: topic {topic_name} is not declared") from None
        self._writer.write(connection, stamp_ns, cdr)
        self.counts[topic_name] += 1

    def close(self) -> None:
        """Write index and metadata.yaml; a second call does nothing."""
        if self._writer.storage is not None:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BagReader:
    """An open bag: its topics, and its messages in order of reception. See `open_bag`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _reading(path):
            self._reader = _open_reader(path)
            self._typestore = _typestore(self._reader, path)
            self.topics = {
                c.topic: BagTopic(c.topic, c.msgtype, tuple(getattr(c.ext, "offered_qos_profiles", ())))
                for c in self._reader.connections
            }
            # Text of the recorded robot's contract, empty without one.
            self.contract = str((self._reader.storage.metadata.custom or {}).get(CONTRACT_KEY, ""))
            # Reception of the first and of the last message; rosbags' end lies 1 ns after the last.
            self.message_count: int = self._reader.message_count
            self.start_ns: int = self._reader.start_time if self.message_count else 0
            self.end_ns: int = self._reader.end_time - 1 if self.message_count else 0

    def raw_messages(self, topic_names: Collection[str] = ()) -> Iterator[tuple[str, int, bytes]]:
        """Yield (topic name, reception [ns], CDR bytes) of the named topics, or of all of them.

        Raises BagError when a topic is not in the bag, or the bag is damaged.
        """
        for connection, stamp_ns, cdr in self._records(topic_names):
            yield connection.topic, stamp_ns, cdr

    def messages(self, topic_names: Collection[str] = ()) -> Iterator[tuple[str, int, Any]]:
        """Yield (topic name, reception [ns], message); numeric sequences of a message are numpy arrays.

        Raises BagError when a topic is not in the bag, the bag is damaged, or a message does not fit its
        definition.
        """
        for connection, stamp_ns, cdr in self._records(topic_names):
            yield connection.topic, stamp_ns, self._deserialize(connection, stamp_ns, cdr)

    def _records(self, topic_names: Collection[str]) -> Iterator[tuple[Connection, int, bytes]]:
        records = self._reader.messages(self._select(topic_names))
        while True:
            with _reading(self.path):  # not around `yield`: the errors of who reads are their own
                record = next(records, None)
            if record is None:
                return
            yield record

    def _deserialize(self, connection: Connection, stamp_ns: int, cdr: bytes) -> Any:
        # Not Typestore.deserialize_cdr: it refuses the trailing bytes that rclpy's serialize_message leaves
        # behind messages with empty sequences, and so bags whose writer used that function.
        with _reading(self.path, f"{connection.topic} at {stamp_ns} ns: "):
            definition = self._typestore.get_msgdef(connection.msgtype)
            decode = definition.deserialize_cdr_le if cdr[1:2] == b"\x01" else definition.deserialize_cdr_be
            message, _ = decode(cdr[4:], 0, definition.cls, self._typestore)
        return message

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
    try:
        _require_shallow(path / "metadata.yaml")
        reader = Reader(path)
        reader.open()
    except FileNotFoundError as error:
        unfinished = path.is_dir() and any(path.glob("*.mcap"))
        reason = "no metadata.yaml, its recorder was killed" if unfinished else "no bag there"
        raise BagError(f"{path}: {reason}") from error
    return reader


def _require_shallow(metadata: Path) -> None:
    """Refuse a deeply nested file: rosbags' parser would take hours for some kilobytes of brackets."""
    depth = 0
    with metadata.open(encoding="utf-8") as file:
        for event in yaml.parse(file, yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_METADATA_DEPTH:
                raise ValueError(f"{metadata.name}: found more than {MAX_METADATA_DEPTH} nested values")


def _typestore(reader: Reader, path: Path) -> Typestore:
    """Return the types of a bag: its own definitions, and the installed ones where it has none."""
    store = get_typestore(Stores.EMPTY)
    for connection in reader.connections:
        definition = connection.msgdef
        try:
            if definition.format == MessageDefinitionFormat.IDL:
                for section in definition.data.split(_SEPARATOR):
                    store.register(get_types_from_idl(section.partition("\n")[2]) if section else {})
            else:
                text = definition.data or message_definition(connection.msgtype)
                store.register(get_types_from_msg(text, connection.msgtype))
        except (TypesysError, BagError) as error:
            raise BagError(f"{path}: {connection.topic}: {error}") from error
    return store


def open_bag(path: Path) -> BagReader:
    """Open a rosbag2 bag for reading, to be used as a context manager.

    Raises BagError when there is no bag at `path`, it was not finished, or a message definition is missing.
    """
    return BagReader(path)
