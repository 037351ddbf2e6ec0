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

from remote_inference.recording.bags.split_file import Channel

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
    unfinished = folder / f"{METADATA_NAME}.tmp"
    unfinished.write_text(metadata_text({ROOT_KEY: dict(metadata)}), encoding="utf-8")
    unfinished.replace(folder / METADATA_NAME)
