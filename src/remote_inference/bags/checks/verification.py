# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks whether a bag is whole, in order and unchanged: reads it once, one chunk at a time.

A new check is a module, and an entry in CHECKS.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from remote_inference.bags.checks.check import Check, Finding, Level, Verification, count
from remote_inference.bags.checks.digests import DigestCheck
from remote_inference.bags.checks.sequences import GapCheck, IdCheck, OrderCheck
from remote_inference.bags.storage.bag_metadata import METADATA_NAME, find_files, read_metadata
from remote_inference.bags.storage.bag_records import CONTRACT_KEY, REPAIR, RUN
from remote_inference.bags.storage.mcap_scan import Damage, Messages, MetadataRecord, OnBytes, scan_file

CHECKS: tuple[type[Check], ...] = (DigestCheck, GapCheck, OrderCheck, IdCheck)


def verify(path: Path, on_bytes: OnBytes = lambda _: None) -> Verification:
    """Read a bag once and judge it.

    Raises BagError when there is no MCAP bag at `path`, OSError when a file cannot be read.
    """
    metadata = read_metadata(path)
    files = find_files(path, metadata)
    result = Verification(path, len(files), sum(file.stat().st_size for file in files))
    result.is_finished = metadata is not None
    checks = [check(result) for check in CHECKS]
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
