# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""metadata.yaml of a bag, as rosbag2 writes it for MCAP files: what every reader begins with."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from remote_inference.bags.atomic_file import atomic_write
from remote_inference.bags.storage.bag_records import BagError, UnsupportedBagError
from remote_inference.bags.storage.mcap_scan import file_number
from remote_inference.bags.storage.split_file import Channel
from remote_inference.base.documents.document import DocumentError, read_yaml

METADATA_NAME = "metadata.yaml"
ROOT_KEY = "rosbag2_bagfile_information"
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


def read_metadata(path: Path) -> Mapping[str, Any] | None:
    """Return what metadata.yaml of a bag says below its root; None for a bag without the file.

    Raises UnsupportedBagError when there is no bag or one of another kind, BagError when the file is damaged.
    """
    if path.is_file():
        raise UnsupportedBagError(f"{path}: found a file, expected the folder of a bag, with MCAP files")
    if not path.is_dir():
        raise UnsupportedBagError(f"{path}: no bag there")
    file = path / METADATA_NAME
    if not file.exists():
        return None
    try:
        content = read_yaml(file)
    except DocumentError as error:
        raise BagError(str(error)) from error
    metadata = content.get(ROOT_KEY) if isinstance(content, dict) else None
    if not isinstance(metadata, dict):
        raise BagError(f"{file}: found no {ROOT_KEY}, expected the metadata of a rosbag2 bag")
    storage = metadata.get("storage_identifier")
    if storage != "mcap":
        raise UnsupportedBagError(f"{path}: found a bag of {storage} files, expected MCAP files")
    if mode := metadata.get("compression_mode"):
        advice = "`ros2 bag convert` without compression makes them readable"
        raise UnsupportedBagError(
            f"{path}: found MCAP files that ros2 bag compressed by {str(mode).lower()}; {advice}"
        )
    names = metadata.get("relative_file_paths")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BagError(f"{file}: relative_file_paths: found {names}, expected a list of files")
    if not isinstance(metadata.get("message_count"), int):
        raise BagError(f"{file}: message_count: found {metadata.get('message_count')}, expected a number")
    return metadata


def find_files(path: Path, metadata: Mapping[str, Any] | None) -> list[Path]:
    """Return the MCAP files of a bag in the order in which they were written.

    They are those of metadata.yaml, and those that it does not name. Raises BagError when there is none.
    """
    present = sorted(path.glob("*.mcap"), key=file_number)
    if not present:
        raise BagError(f"{path}: no bag there: found no MCAP file")
    named = [path / Path(name).name for name in metadata["relative_file_paths"]] if metadata else []
    first = [file for file in named if file in present]
    return [*first, *(file for file in present if file not in first)]
