# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""However another program writes a robot's messages: every verb finds in them what it finds in our own."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from mcap.opcode import Opcode
from mcap.writer import CompressionType, IndexType

from remote_inference.bags.storage.bag import BagReader
from support.recording.damaged_bag import flip, messages_of_file, say
from support.recording.decision_bag import OWN
from support.recording.reading_verbs import LENIENT, REPAIR, SLOW, STRICT, VERIFY, Told, Words, run_verb
from support.recording.rewritten_bag import (
    NO_SUMMARY,
    OLD_QOS,
    OTHER_QOS,
    QOS,
    Extra,
    Rewrite,
    rewrite,
    write_sqlite,
)
from support.recording.simulated_run import write_simulated_run

EXECUTED = f"{OWN}/executed"
READERS = {**STRICT, **LENIENT}

REWRITES = {
    "QoS in metadata.yaml alone": Rewrite(metadata_qos=QOS),
    "QoS in the channels alone": Rewrite(channel_qos=QOS),
    "QoS different": Rewrite(channel_qos=QOS, metadata_qos=OTHER_QOS),
    "QoS absent": Rewrite(),
    "QoS in numbers": Rewrite(channel_qos=OLD_QOS, metadata_qos=QOS),
    "QoS that makes no sense": Rewrite(channel_qos="- history: yes", metadata_qos="- [7]"),
    "no message index": Rewrite({"index_types": IndexType.CHUNK}),
    "no chunk index": Rewrite({"index_types": IndexType.MESSAGE}),
    "no index": Rewrite({"index_types": IndexType.NONE}),
    "no statistics": Rewrite({"use_statistics": False}),
    "no summary": Rewrite(NO_SUMMARY),
    "no chunks": Rewrite({"use_chunking": False}),
    "no chunks and no summary": Rewrite({"use_chunking": False, **NO_SUMMARY}),
    "no checksums": Rewrite({"enable_crcs": False}),
    "lz4": Rewrite({"compression": CompressionType.LZ4}),
    "uncompressed": Rewrite({"compression": CompressionType.NONE}),
    "one chunk": Rewrite({"chunk_size": 1 << 30}),
    "a chunk for each message": Rewrite({"chunk_size": 1}),
    "a chunk of channels alone": Rewrite(begins_apart=True),
    "topics without a slash": Rewrite(topic=lambda name: name.lstrip("/")),
    "three files": Rewrite(files=3),
}
EXTRAS = {
    "without a schema": (Extra("cdr"), "found cdr without a schema, expected messages of ROS 2"),
    "JSON": (Extra("json", "jsonschema"), "found json jsonschema, expected messages of ROS 2"),
    "ROS 1": (Extra("ros1", "ros1msg"), "found ros1 ros1msg, expected messages of ROS 2"),
    "protobuf": (Extra("protobuf", "protobuf"), "found protobuf protobuf, expected messages of ROS 2"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_simulated_run(tmp_path_factory.mktemp("bags") / "run", seconds=1)


@pytest.fixture(scope="module")
def whole(run: Path) -> dict[str, Told]:
    return {verb: run_verb(words, run) for verb, words in {**READERS, **SLOW}.items()}


def check_same(bag: Path, whole: Mapping[str, Told], verbs: Mapping[str, Words] = READERS) -> str:
    """Compare what the verbs find with what they find in the run itself; return what one of them said."""
    for verb, words in verbs.items():
        found = run_verb(words, bag)
        assert (found.code, found.printed, found.made) == (0, whole[verb].printed, whole[verb].made), verb
    return found.words


@pytest.mark.parametrize("name", REWRITES)
def test_a_rewritten_bag_is_read_as_the_run_itself(
    name: str, run: Path, whole: Mapping[str, Told], tmp_path: Path
) -> None:
    bag = rewrite(run, tmp_path / "run", REWRITES[name])
    verbs = {**READERS, **SLOW} if name == "no summary" else READERS
    check_same(bag, whole, verbs)
    verified = run_verb(VERIFY, bag)
    assert (verified.code, verified.document["messages"]) == (0, messages_of_file(0)(run))
    assert "no digests: another recorder wrote the bag" in verified.words
    assert run_verb(REPAIR, bag).document["out"] is None


@pytest.mark.parametrize("name", EXTRAS)
def test_what_is_no_message_of_ros_2_is_left_out_and_named(
    name: str, run: Path, whole: Mapping[str, Told], tmp_path: Path
) -> None:
    (extra, words), total = EXTRAS[name], messages_of_file(0)(run)
    bag = rewrite(run, tmp_path / "run", Rewrite(extras=[extra]))
    assert f"{extra.topic} is left out: {words}" in check_same(bag, whole)
    with BagReader(bag) as reader:
        assert extra.topic not in reader.topics
        assert len(list(reader.raw_messages())) == reader.message_count == total
    verified = run_verb(VERIFY, bag)
    assert (verified.code, verified.document["messages"]) == (0, total + 3)
    assert f"3 messages of {extra.topic} are no messages of ROS 2" in verified.words


def test_messages_that_lie_in_another_order_are_read_by_time(
    run: Path, whole: Mapping[str, Told], tmp_path: Path
) -> None:
    backwards = Rewrite(files=2, order=lambda items: sorted(items, key=lambda item: -item.log_time))
    bag = rewrite(run, tmp_path / "run", backwards)
    check_same(bag, whole)
    verified = run_verb(VERIFY, bag)
    assert verified.code == 1
    assert "times of reception go back" in verified.words


def test_an_sqlite_bag_is_read_and_cannot_be_verified(
    run: Path, whole: Mapping[str, Told], tmp_path: Path
) -> None:
    bag = write_sqlite(run, tmp_path / "run")
    check_same(bag, whole, {**READERS, **SLOW})
    for words in (VERIFY, REPAIR):
        refusal = run_verb(words, bag)
        assert refusal.code == 2
        assert "found a bag of sqlite3 files, expected MCAP files" in refusal.words


@pytest.mark.parametrize("mode", ["FILE", "MESSAGE"])
def test_files_that_ros2_bag_compressed_are_refused_by_every_verb(
    mode: str, run: Path, tmp_path: Path
) -> None:
    bag = shutil.copytree(run, tmp_path / "run")
    say(lambda said: said.update(compression_mode=mode, compression_format="zstd"))(bag)
    for verb, words in {**READERS, **SLOW, "verify": VERIFY, "repair": REPAIR}.items():
        refusal = run_verb(words, bag)
        assert refusal.code == 2, verb
        assert f"found files that ros2 bag compressed by {mode.lower()}; `ros2 bag convert`" in refusal.words


def test_an_index_that_leaves_a_topic_out_of_a_chunk_costs_no_message_without_a_word(
    run: Path, tmp_path: Path
) -> None:
    """Its checksum fits: a program wrote it so. Chunks without the topics of a verb are not read."""
    bag = shutil.copytree(run, tmp_path / "run")
    flip(Opcode.CHUNK_INDEX, 36, 6, which=1, is_sealed=True)(bag)  # the first channel of the chunk: EXECUTED
    refusal = run_verb(STRICT["export --csv"], bag)
    assert refusal.code == 2
    assert f"{EXECUTED}: read 24 messages, expected 44" in refusal.words
    assert "its index has other times, sizes or topics" in run_verb(VERIFY, bag).words
