# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""metadata.yaml of a bag, as rosbag2 writes it for MCAP files: what every reader begins with."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from remote_inference.bags.atomic_file import atomic_write
from remote_inference.bags.storage.bag_records import (
    BagError,
    BagTopic,
    UnsupportedBagError,
    absolute_name,
    advise_repair,
    read_qos,
)
from remote_inference.bags.storage.mcap_records import file_number
from remote_inference.bags.storage.split_file import Channel
from remote_inference.base.documents.document import DocumentError, read_yaml

METADATA_NAME = "metadata.yaml"
ROOT_KEY = "rosbag2_bagfile_information"
STORAGES = {"mcap": ".mcap", "sqlite3": ".db3"}  # suffixes of files
VERSION = 9  # of the metadata's form: since it, QoS is a list of words
NO_START_NS = 2**63 - 1  # what rosbag2 writes as the start of a bag without messages


@dataclass(frozen=True)
class FileFacts:
    """What metadata.yaml says of one finished file."""

    name: str
    start_ns: int  # reception of the first message; meaningless without any
    end_ns: int
    counts: Mapping[str, int]  # messages by topic

    @property
    def messages(self) -> int:
        return sum(self.counts.values())


def make_metadata(
    files: Iterable[FileFacts], channels: Iterable[Channel], custom_data: Mapping[str, str]
) -> dict[str, Any]:
    """Return the content of metadata.yaml below its root."""
    files = list(files)
    counts: Counter[str] = Counter()
    for file in files:
        counts.update(file.counts)
    filled = [file for file in files if file.messages]
    start_ns = min((file.start_ns for file in filled), default=NO_START_NS)
    end_ns = max((file.end_ns for file in filled), default=NO_START_NS)
    return {
        "version": VERSION,
        "storage_identifier": "mcap",
        "duration": {"nanoseconds": end_ns - start_ns},
        "starting_time": {"nanoseconds_since_epoch": start_ns},
        "message_count": counts.total(),
        "topics_with_message_count": [_topic(channel, counts[channel.topic.name]) for channel in channels],
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file.name for file in files],
        "files": [_file(file) for file in files],
        "custom_data": dict(custom_data) or None,
        "ros_distro": os.environ.get("ROS_DISTRO", ""),
    }


def _topic(channel: Channel, messages: int) -> dict[str, Any]:
    topic = channel.topic
    return {
        "topic_metadata": {
            "name": topic.name,
            "type": topic.msgtype,
            "serialization_format": "cdr",
            "offered_qos_profiles": topic.qos_document(),
            "type_description_hash": channel.type_hash,
        },
        "message_count": messages,
    }


def _file(file: FileFacts) -> dict[str, Any]:
    start_ns, duration_ns = (
        (file.start_ns, file.end_ns - file.start_ns) if file.messages else (NO_START_NS, 0)
    )
    return {
        "path": file.name,
        "starting_time": {"nanoseconds_since_epoch": start_ns},
        "duration": {"nanoseconds": duration_ns},
        "message_count": file.messages,
    }


def metadata_text(metadata: Mapping[str, Any]) -> str:
    """Return metadata as YAML, as the last record of an MCAP file repeats them."""
    return yaml.safe_dump(dict(metadata), sort_keys=False, allow_unicode=True)


def write_metadata(folder: Path, metadata: Mapping[str, Any]) -> None:
    """Write metadata.yaml whole or not at all. Raises OSError."""
    with atomic_write(folder / METADATA_NAME) as path:
        path.write_text(metadata_text({ROOT_KEY: dict(metadata)}), encoding="utf-8")


@dataclass(frozen=True)
class BagMetadata:
    """What metadata.yaml of a bag says.

    problem: why it cannot be used: then it is empty, as where it is absent. storage: of the files, which tell
    it themselves where the metadata do not.
    """

    exists: bool
    storage: str = "mcap"
    content: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""

    @property
    def files(self) -> list[str]:
        """Their names, in its order."""
        return [Path(name).name for name in self.content.get("relative_file_paths", ())]

    @property
    def custom_data(self) -> dict[str, str]:
        custom = self.content.get("custom_data")
        return {str(key): str(value) for key, value in custom.items()} if isinstance(custom, dict) else {}

    @cached_property
    def counts(self) -> dict[str, int]:
        """Messages by topic."""
        counts: Counter[str] = Counter()  # some tools name a topic once for each QoS
        for topic, count in self._topics:
            counts[topic.name] += count
        return counts

    @property
    def topics(self) -> list[BagTopic]:
        return [topic for topic, _ in self._topics]

    @cached_property
    def _topics(self) -> list[tuple[BagTopic, int]]:
        """The topics of which it says what it should; `verify` names the others."""
        found: list[tuple[BagTopic, int]] = []
        said_topics = self.content.get("topics_with_message_count")
        for one in said_topics if isinstance(said_topics, list) else ():
            with suppress(KeyError, TypeError, ValueError, AttributeError, OverflowError):
                said = one["topic_metadata"]
                qos = read_qos(said.get("offered_qos_profiles", ""))
                topic = BagTopic(absolute_name(said["name"]), str(said["type"]), qos)
                found.append((topic, int(one["message_count"])))
        return found


def read_metadata(path: Path) -> BagMetadata:
    """Read metadata.yaml of a bag.

    Raises UnsupportedBagError when there is no bag, or one of another kind.
    """
    if path.is_file():
        raise UnsupportedBagError(f"{path}: found a file, expected the folder of a bag, with {METADATA_NAME}")
    if not path.is_dir():
        raise UnsupportedBagError(f"{path}: no bag there")
    found = next((name for name, suffix in STORAGES.items() if any(path.glob(f"*{suffix}"))), "mcap")
    if not (path / METADATA_NAME).exists():
        return BagMetadata(False, found)
    try:
        content = _read_content(path / METADATA_NAME)
    except (DocumentError, BagError) as error:
        reason = str(error).removeprefix(f"{path / METADATA_NAME}: ")
        return BagMetadata(True, found, problem=f"{METADATA_NAME}: {reason}")
    storage = str(content.get("storage_identifier") or found)  # Humble's `ros2 bag reindex` leaves it empty
    if storage not in STORAGES:
        raise UnsupportedBagError(f"{path}: found a bag of {storage} files, expected MCAP or SQLite files")
    mode = str(content.get("compression_mode") or "none").lower()
    if mode != "none":
        advice = "`ros2 bag convert` without compression makes them readable"
        raise UnsupportedBagError(f"{path}: found files that ros2 bag compressed by {mode}; {advice}")
    return BagMetadata(True, storage, content)


def _read_content(file: Path) -> Mapping[str, Any]:
    """Return what is below the root. Raises DocumentError or BagError when it does not say what it must."""
    document = read_yaml(file)
    content = document.get(ROOT_KEY) if isinstance(document, dict) else None
    if not isinstance(content, dict):
        raise BagError(f"found no {ROOT_KEY}, expected the metadata of a rosbag2 bag")
    names = content.get("relative_file_paths")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BagError(f"relative_file_paths: found {names}, expected a list of files")
    if not isinstance(content.get("message_count"), int):
        raise BagError(f"message_count: found {content.get('message_count')}, expected a number")
    return content


def find_files(path: Path, metadata: BagMetadata) -> list[Path]:
    """Return the files of a bag: those that metadata.yaml names, and those that it does not.

    Raises BagError when there is none.
    """
    suffix = STORAGES[metadata.storage]
    present = sorted(path.glob(f"*{suffix}"), key=file_number)
    if not present:
        raise BagError(f"{path}: no bag there: found no {suffix} file")
    named = [path / name for name in dict.fromkeys(metadata.files)]
    first = [file for file in named if file in present]
    stems = {file.stem.rpartition("_")[0] for file in present}
    return present if len(stems) == 1 else [*first, *(file for file in present if file not in first)]


def compare_names(metadata: BagMetadata, files: Sequence[Path]) -> list[str]:
    """Return how the files that metadata.yaml names differ from those of the bag."""
    if not metadata.content:
        return []
    named, present = metadata.files, [file.name for file in files]
    found = [f"{METADATA_NAME} names {name}, which is absent" for name in named if name not in present]
    other = (name for name in present if name not in named)
    found += [f"{name} is not named in {METADATA_NAME}: `ros2 bag` leaves it out" for name in other]
    if len(named) > len({*named}):
        found.append(f"{METADATA_NAME} names a file twice")
    elif not found and named != present:
        found.append(f"{METADATA_NAME} names the files in another order than that of their numbers")
    return found


def describe_unfinished(path: Path) -> str:
    """Return in words that a bag has no metadata.yaml, why, and what helps."""
    why = "the bag is still recorded, or its recorder was killed"
    return f"no {METADATA_NAME}: {why}; {advise_repair(path)}"


def find_scanned(path: Path, metadata: BagMetadata) -> list[Path]:
    """Return the files as `find_files`. Raises UnsupportedBagError when they are no MCAP files."""
    if metadata.storage != "mcap":
        raise UnsupportedBagError(f"{path}: found a bag of {metadata.storage} files, expected MCAP files")
    return find_files(path, metadata)
