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
from remote_inference.bags.storage.bag_metadata import (
    METADATA_NAME,
    BagMetadata,
    compare_names,
    describe_unfinished,
    find_scanned,
    read_metadata,
)
from remote_inference.bags.storage.bag_records import CONTRACT_KEY, REPAIR, RUN, ZSTD_MAGIC, absolute_name
from remote_inference.bags.storage.mcap_records import Damage
from remote_inference.bags.storage.mcap_scan import (
    Messages,
    MetadataRecord,
    OnBytes,
    ScannedMessage,
    scan_file,
)

CHECKS: tuple[type[Check], ...] = (DigestCheck, GapCheck, OrderCheck, IdCheck)


def verify(path: Path, on_bytes: OnBytes = lambda _: None) -> Verification:
    """Read a bag once and judge it.

    Raises BagError when there is no MCAP bag at `path`, OSError when a file cannot be read.
    """
    metadata = read_metadata(path)
    files = find_scanned(path, metadata)
    result = Verification(path, len(files), sum(file.stat().st_size for file in files))
    result.is_finished = metadata.exists
    checks = [check(result) for check in CHECKS]
    if not metadata.exists:
        result.add_problem(describe_unfinished(path))
    if metadata.problem:
        result.add_problem(f"{metadata.problem}: read from the files themselves; --repair writes it anew")
    for file in files:
        for check in checks:
            check.begin_file(file.name)
        _read_file(file, checks, result, on_bytes)
        for check in checks:
            check.end_file()
    for check in checks:
        check.end_bag()
    compare_metadata(metadata, files, result)
    for topic, why in sorted(result.left_out.items()):
        text = f"{count(result.counts[topic], 'message')} of {topic} are no messages of ROS 2 ({why})"
        result.findings.append(Finding(Level.NOTE, "files", f"{text}: other verbs cannot read them"))
    return result


def _read_file(file: Path, checks: list[Check], result: Verification, on_bytes: OnBytes) -> None:
    for item in scan_file(file, on_bytes):
        if isinstance(item, Messages):
            for message in item.messages:
                count_message(message, result)
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


def count_message(message: ScannedMessage, result: Verification) -> None:
    channel = message.channel
    result.start_ns = min(result.start_ns or message.log_time_ns, message.log_time_ns)
    result.end_ns = max(result.end_ns, message.log_time_ns)
    result.counts[channel.topic] += 1
    result.types[channel.topic] = channel.msgtype
    problem = "compressed one by one" if message.data.startswith(ZSTD_MAGIC) else channel.problem
    if problem:
        result.left_out[channel.topic] = problem


def compare_metadata(metadata: BagMetadata, files: list[Path], result: Verification) -> None:
    """Compare metadata.yaml, which every reader trusts, with the files."""
    if not metadata.content:
        return
    for text in compare_names(metadata, files):
        result.add_problem(text)
    said, total = metadata.content["message_count"], result.counts.total()
    if said != total:
        result.add_problem(f"{METADATA_NAME} counts {said} messages, found {count(total, 'message')}")
    else:  # otherwise those of its topics differ, too
        found = {absolute_name(topic): messages for topic, messages in result.counts.items()}
        for name, messages in metadata.counts.items():
            if messages != found.get(name, 0):
                text = f"{messages} messages of {name}, found {found.get(name, 0)}"
                result.add_problem(f"{METADATA_NAME} counts {text}")
    if result.contract is not None:
        _compare_content(metadata.content, result, result.contract)


def _compare_content(metadata: Mapping[str, Any], result: Verification, contract: str) -> None:
    """Compare what metadata.yaml says of our own bag with what is in its files: readers believe it."""
    try:
        named = {
            topic["topic_metadata"]["name"]: topic["topic_metadata"]["type"]
            for topic in metadata["topics_with_message_count"]
        }
        start_ns = metadata["starting_time"]["nanoseconds_since_epoch"]
        end_ns = start_ns + metadata["duration"]["nanoseconds"]
        named_contract = (metadata.get("custom_data") or {}).get(CONTRACT_KEY, "")
    except (KeyError, TypeError, AttributeError):
        lack = f"{METADATA_NAME} lacks topics, times or their numbers"
        result.add_problem(f"{lack}, as bag_recorder writes them")
        return
    for name, found in result.types.items():
        if (known := named.get(name, "no word")) != found:
            result.add_problem(f"{METADATA_NAME} has {known} of {name}, found {found}")
    if named_contract != contract:
        result.add_problem(f"{METADATA_NAME} has another contract than the recorder noted")
    if result.counts and start_ns != result.start_ns:
        result.add_problem(f"{METADATA_NAME} has another time of begin than the messages")
    elif result.counts and end_ns != result.end_ns:
        text = f"{METADATA_NAME} has another duration than the messages, as `ros2 bag reindex` writes it"
        result.findings.append(Finding(Level.NOTE, "files", f"{text} of several files"))
