# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks whether a bag is whole, in order and unchanged: reads it once, one chunk at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remote_inference.bags.checks import CHECKS, Check, Finding, Level
from remote_inference.bags.checks.check import BagFacts, count
from remote_inference.bags.storage.bag_metadata import METADATA_NAME, find_files, read_metadata
from remote_inference.bags.storage.bag_records import CONTRACT_KEY, REPAIR, RUN
from remote_inference.bags.storage.mcap_scan import Damage, Messages, MetadataRecord, OnBytes, scan_file


@dataclass
class Verification:
    """What a bag holds, and what is wrong with it. Times are receptions in ns, 0 without messages."""

    path: Path
    files: int = 0
    size: int = 0  # bytes
    counts: Counter[str] = field(default_factory=Counter)  # messages by topic
    types: dict[str, str] = field(default_factory=dict)  # of the topics that have messages
    contract: str | None = None  # as the recorder noted it; None: another recorder wrote the bag
    start_ns: int = 0
    end_ns: int = 0
    facts: BagFacts = field(default_factory=BagFacts)
    findings: list[Finding] = field(default_factory=list)

    def add_problem(self, text: str) -> None:
        """Add what is wrong with the files."""
        self.findings.append(Finding(Level.PROBLEM, "files", text))

    def of(self, level: Level) -> list[Finding]:
        return [finding for finding in self.findings if finding.level is level]

    @property
    def is_intact(self) -> bool:
        """Whether no problem was found: the bag is what was recorded, and says itself what is missing."""
        return not self.of(Level.PROBLEM)

    def to_json(self) -> dict[str, Any]:
        return {
            "bag": str(self.path),
            "intact": self.is_intact,
            "files": self.files,
            "bytes": self.size,
            "messages": self.counts.total(),
            "topics": dict(self.counts),
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "links": self.facts.links,
            "digest": self.facts.digest,
            "findings": [finding.to_json() for finding in self.findings],
        }


def verify(path: Path, on_bytes: OnBytes = lambda _: None) -> Verification:
    """Read a bag once and judge it.

    Raises BagError when there is no MCAP bag at `path`, OSError when a file cannot be read.
    """
    metadata = read_metadata(path)
    files = find_files(path, metadata)
    result = Verification(path, len(files), sum(file.stat().st_size for file in files))
    result.facts.is_finished = metadata is not None
    checks = [check(result.facts, result.findings) for check in CHECKS]
    if metadata is None:
        advice = f"`remote-inference verify {path} --repair NEW_FOLDER` recovers what is whole"
        result.add_problem(
            f"no {METADATA_NAME}: the bag is still recorded, or its recorder was killed; {advice}"
        )
    for file in files:
        for check in checks:
            check.begin_file(file.name)
        _read_file(file, checks, result, on_bytes)
        for check in checks:
            check.end_file()
    for check in checks:
        check.end_bag()
    if metadata is not None:
        _compare(metadata, files, result)
        if result.contract is not None:
            _compare_content(metadata, result, result.contract)
    return result


def _read_file(file: Path, checks: list[Check], result: Verification, on_bytes: OnBytes) -> None:
    for item in scan_file(file, on_bytes):
        if isinstance(item, Messages):
            for message in item.messages:
                result.start_ns = min(result.start_ns or message.log_time_ns, message.log_time_ns)
                result.end_ns = max(result.end_ns, message.log_time_ns)
                result.counts[message.channel.topic] += 1
                result.types[message.channel.topic] = message.channel.msgtype
                for check in checks:
                    check.on_message(message)
        elif isinstance(item, MetadataRecord):
            if item.name == REPAIR:  # what `verify --repair` wrote of the bag that it recovered
                lost = item.values.get("lost", "does not say what is lost")
                result.findings.append(Finding(Level.MISSING, "files", f"repaired: {lost}"))
            if item.name == RUN:
                result.contract = item.values.get("contract", "")
            for check in checks:
                check.on_record(item)
        elif isinstance(item, Damage):
            result.add_problem(f"{file.name}: at byte {item.offset}: {item.reason}")
            for check in checks:
                check.on_damage(item)
        elif item.index_problem:
            result.add_problem(f"{file.name}: {item.index_problem}")


def _compare(metadata: Mapping[str, Any], files: list[Path], result: Verification) -> None:
    """Compare metadata.yaml, which every reader trusts, with the files."""
    named = {Path(name).name for name in metadata["relative_file_paths"]}
    present = {file.name for file in files}
    for name in sorted(named - present):
        result.add_problem(f"{METADATA_NAME} names {name}, which is absent")
    for name in sorted(present - named):
        result.add_problem(f"{name} is not named in {METADATA_NAME}: readers leave it out")
    if named == present and metadata["message_count"] != result.counts.total():
        found = count(result.counts.total(), "message")
        result.add_problem(f"{METADATA_NAME} counts {metadata['message_count']} messages, found {found}")


def _compare_content(metadata: Mapping[str, Any], result: Verification, contract: str) -> None:
    """Compare what metadata.yaml says of our own bag with what is in its files: readers believe it."""
    try:
        named = {
            topic["topic_metadata"]["name"]: (topic["topic_metadata"]["type"], topic["message_count"])
            for topic in metadata["topics_with_message_count"]
        }
        start_ns = metadata["starting_time"]["nanoseconds_since_epoch"]
        end_ns = start_ns + metadata["duration"]["nanoseconds"]
        named_contract = (metadata.get("custom_data") or {}).get(CONTRACT_KEY, "")
    except (KeyError, TypeError, AttributeError):
        result.add_problem(
            f"{METADATA_NAME} lacks topics, times or their numbers, as bag_recorder writes them"
        )
        return
    for name, messages in result.counts.items():
        found = result.types[name], messages
        if named.get(name) != found:
            known = named.get(name, "no word")
            result.add_problem(f"{METADATA_NAME} has {known} of {name}, found {found[0]}, {found[1]}")
    if named_contract != contract:
        result.add_problem(f"{METADATA_NAME} has another contract than the recorder noted")
    if result.counts and (start_ns, end_ns) != (result.start_ns, result.end_ns):
        result.add_problem(f"{METADATA_NAME} has other times of begin or end than the messages")
