# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bags that are written or damaged by chance: what is read is what was recorded, or what is lost is named."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from mcap.writer import CompressionType, IndexType
from rclpy.serialization import serialize_message
from std_msgs.msg import UInt64

from remote_inference.bags.checks.repair import repair
from remote_inference.bags.checks.verification import verify
from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import BagError, BagTopic
from remote_inference.bags.storage.bag_writer import BagLimits, BagWriter
from support.recording.rewritten_bag import NO_SUMMARY, OLD_QOS, OTHER_QOS, QOS, Extra, Rewrite, rewrite

REWRITES, DAMAGES = 40, 200
FLIPS = int(os.environ.get("BIT_FLIPS", "60"))
TOPICS = ("/count", "/robot_1/count", "/robot_1/arm/count")
MESSAGES = 60  # ten a second
UNBOUND = BagLimits()


def count_into(path: Path, limits: BagLimits = UNBOUND) -> Path:
    with BagWriter(path, [BagTopic(name, "std_msgs/msg/UInt64") for name in TOPICS], limits=limits) as bag:
        for number in range(MESSAGES):
            cdr = serialize_message(UInt64(data=number))
            bag.write(TOPICS[number % 3], 10**18 + number * 10**8, cdr, sequence=1 + number // 3)
    return path


@dataclass(frozen=True)
class Reading:
    """The messages of a bag as far as it is read, why not farther, and what it says of itself."""

    messages: list[tuple[str, int, bytes]]
    error: str
    remarks: list[str]


def read_all(path: Path) -> Reading:
    found: list[tuple[str, int, bytes]] = []
    remarks: list[str] = []
    error = ""
    try:
        with BagReader(path) as bag:
            remarks = bag.remarks
            for topic, stamp_ns, cdr in bag.raw_messages():
                found.append((topic, stamp_ns, cdr))
    except BagError as refusal:
        error = str(refusal)
    return Reading(found, error, remarks)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return count_into(tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return count_into(tmp_path_factory.mktemp("splits") / "run", BagLimits(max_split_duration_s=2.0))


@pytest.fixture(scope="module")
def bags(run: Path, splits: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Our own bags, and two of programs that write no checksums or no summary."""
    plain = Rewrite({"compression": CompressionType.NONE, "enable_crcs": False, "chunk_size": 300})
    bare = Rewrite({**NO_SUMMARY, "chunk_size": 300})
    folder = tmp_path_factory.mktemp("others")
    return run, splits, rewrite(run, folder / "plain", plain), rewrite(run, folder / "bare", bare)


WRITERS = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(list(CompressionType)),
        "chunk_size": st.sampled_from([1, 200, 1 << 20]),
        "index_types": st.sampled_from([IndexType.ALL, IndexType.CHUNK, IndexType.MESSAGE, IndexType.NONE]),
        **dict.fromkeys(("use_statistics", "use_summary_offsets", "use_chunking"), st.booleans()),
        **dict.fromkeys(("enable_crcs", "enable_data_crcs"), st.booleans()),
    },
) | st.just({**NO_SUMMARY, "chunk_size": 200})
EXTRAS = st.lists(st.sampled_from([Extra("cdr"), Extra("json", "jsonschema")]), max_size=1)


def by_topic(items: list[Any]) -> list[Any]:
    return sorted(items, key=lambda item: item.channel_id)


ORDERS: tuple[Callable[[list[Any]], list[Any]], ...] = (
    list,
    lambda items: items[::-1],
    by_topic,
)


def without_slash(topic: str) -> str:
    return topic.removeprefix("/")


@st.composite
def rewrites(draw: st.DrawFn) -> Rewrite:
    keeps_records = draw(st.booleans())
    return Rewrite(
        draw(WRITERS),
        files=draw(st.integers(1, 3)),
        channel_qos=draw(st.sampled_from(["", QOS, OLD_QOS])),
        metadata_qos=draw(st.sampled_from(["", QOS, OTHER_QOS])),
        topic=draw(st.sampled_from([str, without_slash])),
        extras=draw(EXTRAS),
        order=list if keeps_records else draw(st.sampled_from(ORDERS)),
        keeps_records=keeps_records,
        begins_apart=draw(st.booleans()),
    )


@given(how=rewrites())
@settings(max_examples=REWRITES)
def test_a_bag_that_is_rewritten_holds_the_same_or_says_what_it_lost(run: Path, how: Rewrite) -> None:
    whole, digest = read_all(run), verify(run).digest
    with TemporaryDirectory() as folder:
        bag = rewrite(run, Path(folder) / "run", how)
        found, verified = read_all(bag), verify(bag)
    if how.files > 1 and how.order is by_topic:  # they do not follow one another
        assert "overlap" in found.error
    else:
        assert (found.messages, found.error) == (whole.messages, "")
        assert all("/extra is left out: " in remark for remark in found.remarks)
        assert len(found.remarks) == how.files * len(how.extras)
    assert verified.counts.total() == MESSAGES + 3 * how.files * len(how.extras)
    said = " ".join(finding.text for finding in verified.findings)
    assert all(f"of {extra.topic} are no messages of ROS 2" in said for extra in how.extras)
    if how.keeps_records and how.files == 1 and how.topic is str and not how.extras:
        assert (verified.digest, verified.is_intact) == (digest, True), said
    elif not how.keeps_records:
        assert "no digests: another recorder wrote the bag" in said
    else:
        assert not verified.is_intact or verified.digest == digest


def flip(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def overwrite(data: bytearray, chance: random.Random) -> None:
    at, size = chance.randrange(len(data)), chance.randrange(1, 64)
    data[at : at + size] = chance.randbytes(min(size, len(data) - at))


def clear(data: bytearray, chance: random.Random) -> None:
    at, size = chance.randrange(len(data)), chance.randrange(1, 512)
    data[at : at + size] = bytes(min(size, len(data) - at))


def cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def take_out(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.randrange(1, 512)]


def put_in(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    data[at:at] = chance.randbytes(chance.randrange(1, 512))


KINDS = (flip, overwrite, clear, cut, take_out, put_in)


def damage(
    whole: Path, bag: Path, kind: Callable[[bytearray, random.Random], None], chance: random.Random
) -> None:
    """Copy a bag, and damage one place of its files."""
    shutil.rmtree(bag, ignore_errors=True)
    shutil.copytree(whole, bag)
    file = chance.choice(sorted(bag.glob("*.mcap")))
    data = bytearray(file.read_bytes())
    kind(data, chance)
    file.write_bytes(data)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_repair_recovers_at_least_what_reading_gives(
    kind: Callable[[bytearray, random.Random], None], bags: tuple[Path, ...], tmp_path: Path
) -> None:
    chance = random.Random(kind.__name__)
    for number in range(DAMAGES // len(KINDS)):
        bag, out = tmp_path / "run", tmp_path / f"out_{number}"
        damage(bags[number % len(bags)], bag, kind, chance)
        found = read_all(bag)
        assert len(found.messages) == MESSAGES or found.error or found.remarks, "what is missing is said"
        try:
            repaired = repair(bag, out)
        except BagError:
            assert not found.messages
            continue
        recovered = read_all(out if repaired.is_needed else bag)
        assert not recovered.error
        assert {*found.messages} <= {*recovered.messages}


def test_a_flipped_bit_is_noticed_or_without_effect(run: Path, splits: Path, tmp_path: Path) -> None:
    whole = read_all(run)
    chance, bag = random.Random(5), tmp_path / "run"
    for number in range(FLIPS):
        damage((run, splits)[number % 2], bag, flip, chance)
        if verify(bag).is_intact:
            assert read_all(bag) == whole
