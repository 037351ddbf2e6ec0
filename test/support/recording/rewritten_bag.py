# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bags as other programs write them: the same messages with other chunks, indexes, QoS, names, or files.

They are read and written by the MCAP library, so that the package is not asked about itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from mcap.records import Channel, Message, Metadata, Schema
from mcap.stream_reader import StreamReader
from mcap.writer import IndexType, Writer
from rosbags.rosbag2 import Reader, StoragePlugin, Writer as SqliteWriter

ROOT = "rosbag2_bagfile_information"
CHUNK_BYTES = 8000  # unless a rewrite says otherwise
_QOS = """- history: {history}
  depth: 5
  reliability: {reliability}
  durability: {durability}
  deadline: {{sec: 9, nsec: 9}}
  lifespan: {{sec: 9, nsec: 9}}
  liveliness: {liveliness}
  liveliness_lease_duration: {{sec: 9, nsec: 9}}
  avoid_ros_namespace_conventions: false"""
QOS = _QOS.format(
    history="keep_last", reliability="best_effort", durability="volatile", liveliness="automatic"
)
OTHER_QOS = QOS.replace("best_effort", "reliable")
OLD_QOS = _QOS.format(history=1, reliability=2, durability=2, liveliness=1)  # until Jazzy
NO_SUMMARY = {
    "index_types": IndexType.NONE,
    **dict.fromkeys(("repeat_channels", "repeat_schemas", "use_statistics", "use_summary_offsets"), False),
}


@dataclass(frozen=True)
class Extra:
    """A channel that no reader of ROS 2 understands, with three messages in each file."""

    encoding: str  # of its messages
    schema: str = ""  # encoding of its schema; empty: it has none
    topic: str = "/extra"


@dataclass(frozen=True)
class Rewrite:
    """How a program writes a bag's messages.

    writer: arguments of the library's. topic: how a channel names it. keeps_records: metadata records stay
    where they are between the messages; otherwise they are left out. begins_apart: the first chunk of a file
    holds its channels and no message.
    """

    writer: dict[str, Any] = field(default_factory=dict)
    files: int = 1
    channel_qos: str = ""
    metadata_qos: str = ""
    topic: Callable[[str], str] = str
    extras: Sequence[Extra] = ()
    order: Callable[[list[Any]], list[Any]] = list
    keeps_records: bool = False
    begins_apart: bool = False


class _Source:
    """What a bag holds. Its channels have the same numbers in all of its files."""

    def __init__(self, bag: Path, *, keeps_records: bool) -> None:
        self.schemas: dict[int, Schema] = {}
        self.channels: dict[int, Channel] = {}
        self.items: list[Message | Metadata] = []
        for file in sorted(bag.glob("*.mcap")):
            with file.open("rb") as stream:
                for record in StreamReader(stream).records:
                    if isinstance(record, Schema):
                        self.schemas[record.id] = record
                    elif isinstance(record, Channel):
                        self.channels[record.id] = record
                    elif isinstance(record, Message) or (isinstance(record, Metadata) and keeps_records):
                        self.items.append(record)


def rewrite(bag: Path, out: Path, how: Rewrite) -> Path:
    """Write a bag's messages anew, into the new folder `out`."""
    out.mkdir()
    source = _Source(bag, keeps_records=how.keeps_records)
    items = how.order(source.items)
    size = -(-len(items) // how.files)
    names = [f"{out.name}_{number}.mcap" for number in range(how.files)]
    counts: Counter[str] = Counter()
    for number, name in enumerate(names):
        part = items[number * size : (number + 1) * size]
        numbers = sorted(source.channels, reverse=number % 2 == 1)  # each file has numbers of its own
        with (out / name).open("wb") as stream:
            writer = Writer(stream, **{"chunk_size": CHUNK_BYTES, **how.writer})
            counts += _write(writer, source, numbers, part, how)
    document = yaml.safe_load((bag / "metadata.yaml").read_text())
    content = document[ROOT]
    content |= {"relative_file_paths": names, "message_count": counts.total()}
    for one in content["topics_with_message_count"]:
        one["topic_metadata"]["offered_qos_profiles"] = yaml.safe_load(how.metadata_qos) or []
    for extra in how.extras:
        told = {"name": extra.topic, "type": "", "serialization_format": extra.encoding}
        content["topics_with_message_count"] += [
            {"topic_metadata": told, "message_count": counts[extra.topic]}
        ]
    (out / "metadata.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return out


def _write(
    writer: Writer, source: _Source, numbers: Sequence[int], items: Sequence[Any], how: Rewrite
) -> Counter[str]:
    """Write a file; return its messages by topic."""
    counts: Counter[str] = Counter()
    writer.start("ros2", "another program")
    known: dict[int, int] = {}
    for number in numbers:
        channel = source.channels[number]
        schema = source.schemas[channel.schema_id]
        schema_id = writer.register_schema(schema.name, schema.encoding, schema.data)
        metadata = {"offered_qos_profiles": how.channel_qos}
        known[number] = writer.register_channel(how.topic(channel.topic), "cdr", schema_id, metadata)
    if how.begins_apart:
        writer.flush()
    begin_ns = next((item.log_time for item in items if isinstance(item, Message)), 0)
    for extra in how.extras:
        schema_id = writer.register_schema("Extra", extra.schema, b"{}") if extra.schema else 0
        number = writer.register_channel(extra.topic, extra.encoding, schema_id)
        for _ in range(3):
            writer.add_message(number, begin_ns, b"\x00\x01\x00\x00", begin_ns)
            counts[extra.topic] += 1
    for item in items:
        if isinstance(item, Message):
            times = item.log_time, item.data, item.publish_time, item.sequence
            writer.add_message(known[item.channel_id], *times)
            counts[source.channels[item.channel_id].topic] += 1
        else:
            writer.flush()
            writer.add_metadata(item.name, item.metadata)
    writer.finish()
    return counts


def write_sqlite(bag: Path, out: Path) -> Path:
    """Write a bag's messages into an SQLite file, as `ros2 bag` did before MCAP."""
    said = yaml.safe_load((bag / "metadata.yaml").read_text())[ROOT]
    with Reader(bag) as reader, SqliteWriter(out, version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
        for key, value in (said["custom_data"] or {}).items():
            writer.set_custom_data(key, value)
        written = {
            one.id: writer.add_connection(
                one.topic, one.msgtype, msgdef=one.msgdef.data, rihs01=one.digest, serialization_format="cdr"
            )
            for one in reader.connections
        }
        for connection, stamp_ns, data in reader.messages():
            writer.write(written[connection.id], stamp_ns, data)
    return out
