# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Recovers a bag whose recorder was killed, whose disk was full, or which is damaged, into a new folder.

Files that are whole are copied byte for byte. Of the others, every whole chunk is written anew with its
records, so that the digest chain still proves what was recovered. The bag itself is only read.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remote_inference import __version__
from remote_inference.bags.checks.check import Level, Verification, count, show_time
from remote_inference.bags.checks.verification import compare_metadata, count_message
from remote_inference.bags.storage import bag_records as records
from remote_inference.bags.storage.bag_metadata import (
    METADATA_NAME,
    FileFacts,
    compare_names,
    find_scanned,
    make_metadata,
    read_metadata,
    write_metadata,
)
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.storage.mcap_records import Damage, ScannedChannel, bag_size
from remote_inference.bags.storage.mcap_scan import (
    Messages,
    MetadataRecord,
    OnBytes,
    ScannedMessage,
    scan_file,
)
from remote_inference.bags.storage.split_file import CHUNK_BYTES, Channel, McapFile


class McapCopy(McapFile):
    """Writes what was read from another MCAP file, chunk by chunk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._channels: dict[int, tuple[ScannedChannel, int]] = {}  # and their numbers, by identity
        self._bytes = 0  # in the open chunk

    def add_chunk(self, messages: Sequence[ScannedMessage]) -> None:
        for message in messages:
            channel, times = message.channel, (message.log_time_ns, message.publish_time_ns)
            if id(channel) not in self._channels:
                self._channels[id(channel)] = channel, self.register_channel(channel)
            _, number = self._channels[id(channel)]
            self._writer.add_message(number, times[0], message.data, times[1], message.sequence)
            self._bytes += len(message.data)
        if self._bytes >= CHUNK_BYTES:
            self._end_chunk()

    def add_record(self, name: str, values: Mapping[str, str]) -> None:
        self._end_chunk()
        super().add_record(name, values)

    def _end_chunk(self) -> None:
        self._writer.flush()
        self._bytes = 0


@dataclass
class Repair:
    """What was recovered, and what was not."""

    out: Path
    files: int = 0  # written
    messages: int = 0  # recovered
    lost: list[str] = field(default_factory=list)  # in words; empty: nothing but metadata.yaml was missing
    is_needed: bool = True  # False: the bag is whole, and nothing was written

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out) if self.is_needed else None,
            "files": self.files,
            "messages": self.messages,
            "lost": self.lost,
        }


@dataclass
class _Content:
    """What one file holds."""

    path: Path
    counts: Counter[str] = field(default_factory=Counter)
    channels: dict[str, ScannedChannel] = field(default_factory=dict)  # by topic
    start_ns: int = 0
    end_ns: int = 0
    damages: dict[int, str] = field(default_factory=dict)  # what is lost, by place
    remarks: list[str] = field(default_factory=list)  # what else was wrong
    is_ours: bool = False  # written by bag_recorder ...
    has_end: bool = False  # ... until it was stopped

    @property
    def lost(self) -> list[str]:
        return [*self.damages.values(), *self.remarks]


def repair(path: Path, out: Path, on_bytes: OnBytes = lambda _: None) -> Repair:
    """Recover a bag into the folder `out`, which must not exist yet.

    Raises BagError when there is no MCAP bag, nothing can be recovered or `out` has no room; OSError when a
    file cannot be read or written. Then `out` does not exist.
    """
    metadata = read_metadata(path)
    problem = "" if metadata.exists else f"{METADATA_NAME} was absent: written anew"
    if metadata.problem:
        problem = f"{metadata.problem}: written anew"
    files = find_scanned(path, metadata)
    _check_out(path, out)
    found = Verification(path)
    contents = [_scan(file, found, on_bytes) for file in files]
    last = contents[-1]
    if last.is_ours and not any(one.has_end for one in contents) and not last.damages:
        last.remarks.append(f"{last.path.name}: its recorder was killed when the file was finished")
    result = Repair(out, lost=[text for content in contents for text in content.lost])
    result.lost += compare_names(metadata, files)
    if not result.lost:  # else its counts differ, too
        compare_metadata(metadata, files, found)
        result.lost += [finding.text for finding in found.of(Level.PROBLEM)]
    if not result.lost and not problem:
        result.is_needed = False
        return result
    if not any(content.counts for content in contents):
        raise BagError(f"{path}: nothing can be recovered: {'; '.join(result.lost) or 'it holds no message'}")
    try:
        out.mkdir(parents=True)
        noted = {records.CONTRACT_KEY: found.contract} if found.contract else {}
        _write(contents, result, metadata.custom_data | noted)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
    if problem:
        result.lost.append(problem)
    return result


def _check_out(path: Path, out: Path) -> None:
    if out.exists():
        raise BagError(f"{out}: exists already, expected a new folder")
    if path.resolve() in out.resolve().parents:
        raise BagError(f"{out}: lies in the bag, which stays as it is; expected another place")
    place = next(folder for folder in out.resolve().parents if folder.is_dir())
    needed, free = bag_size(path), shutil.disk_usage(place).free
    if free < needed:
        raise BagError(f"{out}: found {free} bytes free, expected {needed} for the recovered bag")


def _scan(file: Path, found: Verification, on_bytes: OnBytes) -> _Content:
    """Return what a file holds, and count it in what was found of the bag."""
    content = _Content(file)
    for item in scan_file(file, on_bytes):
        if isinstance(item, Messages):
            for message in item.messages:
                count_message(message, found)
                stamp_ns = message.log_time_ns
                content.start_ns = min(content.start_ns or stamp_ns, stamp_ns)
                content.end_ns = max(content.end_ns, stamp_ns)
                content.counts[message.channel.topic] += 1
                content.channels.setdefault(message.channel.topic, message.channel)
        elif isinstance(item, MetadataRecord):
            content.is_ours = content.is_ours or item.name == records.SPLIT
            content.has_end = content.has_end or item.name in {records.END, records.REPAIR}
            if item.name == records.RUN:
                found.contract = item.values.get("contract", "")
        elif isinstance(item, Damage):
            content.damages[item.offset] = _describe_damage(content, item)
        elif item.index_problem:
            content.remarks.append(f"{file.name}: {item.index_problem}: written anew")
    return content


def _describe_damage(content: _Content, damage: Damage) -> str:
    place = f"{content.path.name}: at byte {damage.offset}: {damage.reason}"
    if not damage.is_loss:
        return place
    if not damage.is_end:
        return f"{place}: what it held is lost"
    if not content.counts:
        return f"{place}: no whole chunk before it"
    messages = count(content.counts.total(), "message")
    return (
        f"{place}: {messages} before it recovered, until {show_time(content.end_ns)}; what came after is lost"
    )


def _write(contents: list[_Content], result: Repair, custom_data: Mapping[str, str]) -> None:
    channels: dict[str, Channel] = {}
    for content in contents:
        if content.lost:
            _write_anew(content, result.out / content.path.name)
        else:
            shutil.copyfile(content.path, result.out / content.path.name)
        for topic, channel in content.channels.items():
            if not channel.problem:
                channels.setdefault(topic, Channel.read(topic, channel))
    facts = [FileFacts(one.path.name, one.start_ns, one.end_ns, one.counts) for one in contents]
    write_metadata(result.out, make_metadata(facts, channels.values(), custom_data))
    result.files, result.messages = len(facts), sum(file.messages for file in facts)


def _write_anew(content: _Content, target: Path) -> None:
    """Write the whole chunks and records of a damaged file, and what is lost."""
    copy = McapCopy(target)
    try:
        for item in scan_file(content.path):
            if isinstance(item, Messages):
                copy.add_chunk(item.messages)
            elif isinstance(item, MetadataRecord):
                copy.add_record(item.name, item.values)
            elif isinstance(item, Damage):  # before the link that covers it
                _remark(copy, content.damages[item.offset])
        for text in content.remarks:
            _remark(copy, text)
        copy.close()
    finally:
        copy.abandon()


def _remark(copy: McapCopy, text: str) -> None:
    copy.add_record(records.REPAIR, {"lost": text, "package_version": __version__})
