# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whatever is damaged in a bag: no verb that reads it leaves a message out without a word."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcap.opcode import Opcode
from mcap.writer import CompressionType

from remote_inference.bags.storage.bag import BagReader
from support.recording.damaged_bag import (
    LENGTH,
    OPCODE,
    Count,
    Damage,
    cut,
    cut_metadata,
    file_of,
    flip,
    lose_file,
    lose_metadata,
    messages_of_chunk,
    messages_of_file,
    say,
    tell_of,
)
from support.recording.decision_bag import OWN
from support.recording.reading_verbs import LENIENT, REPAIR, SLOW, STRICT, VERIFY, Told, run_verb
from support.recording.rewritten_bag import NO_SUMMARY, Rewrite, rewrite
from support.recording.simulated_run import split_run, write_simulated_run

RUN = "one file"  # of several chunks, as bag_recorder writes it
SPLITS = "three files"
PLAIN = "plain"  # messages and records uncompressed, with an index, and without any checksum
BARE = "bare"  # the messages alone, of a program that makes no index
REWRITES = {
    PLAIN: Rewrite({"compression": CompressionType.NONE, "enable_crcs": False}, keeps_records=True),
    BARE: Rewrite(NO_SUMMARY),
}


@dataclass(frozen=True)
class Row:
    """A damage, and what is told of it.

    problem: of `verify`; empty: the bag is intact. said: by all that reads the bag; empty: nothing. lost:
    messages that nobody finds. is_refused: by what needs all messages. is_mended: a repaired bag is read.
    """

    bag: str
    damage: Damage
    problem: str = ""
    said: str = ""
    lost: Count = lambda _: 0
    is_refused: bool = False
    is_mended: bool = True


def told(bag: str, damage: Damage, words: str) -> Row:
    """Return the row of a damage that costs nothing, and of which all verbs say the same."""
    return Row(bag, damage, words, words)


def refused(bag: str, damage: Damage, problem: str, said: str = "", lost: Count = lambda _: 0) -> Row:
    return Row(bag, damage, problem, said or problem, lost, is_refused=True)


CHUNK, CHUNK_INDEX, INDEX, METADATA = (
    *(Opcode.CHUNK, Opcode.CHUNK_INDEX, Opcode.MESSAGE_INDEX, Opcode.METADATA),
)
CHECKSUM = "its index is damaged: it has another checksum"
DATA = "its data have another checksum: something in them changed"
OTHER = "its index has other times, sizes or topics"
OTHER_TIMES = "has other times than its messages"
NO_CHUNK = "where there is none"
HEAD = "the head of a chunk is damaged: read as the index names it"
UNREADABLE = "no record begins here; read on"
ANEW = "read from the files themselves"
MISSING = "some are missing"
SECOND, FIFTH = messages_of_chunk(1), messages_of_chunk(4)
EXECUTED = f"{OWN}/executed"

ROWS: Mapping[str, Row] = {
    "nothing": Row(RUN, lambda _: None),
    # A bit of the index: one without the checksum that fits is not used, one without any as far as it fits.
    "start in the index": told(RUN, flip(CHUNK_INDEX, 7, 3), CHECKSUM),
    "end in the index": told(RUN, flip(CHUNK_INDEX, 15, 3), CHECKSUM),
    "place in the index": told(RUN, flip(CHUNK_INDEX, 16, 3), CHECKSUM),
    "length in the index": told(RUN, flip(CHUNK_INDEX, 24, 3), CHECKSUM),
    "statistics": told(RUN, flip(Opcode.STATISTICS, 0), CHECKSUM),
    "footer": told(RUN, flip(Opcode.FOOTER, 0, 3), CHECKSUM),
    "checksum in the footer": told(RUN, flip(Opcode.FOOTER, 16), CHECKSUM),
    "length of the footer": told(RUN, flip(Opcode.FOOTER, LENGTH), "its footer is damaged"),
    "plain: start in the index": Row(PLAIN, flip(CHUNK_INDEX, 7, 3, which=4), OTHER),
    "plain: end in the index": Row(PLAIN, flip(CHUNK_INDEX, 15, 3, which=4), OTHER),
    "plain: place in the index": told(PLAIN, flip(CHUNK_INDEX, 16, 3), NO_CHUNK),
    "plain: length in the index": told(PLAIN, flip(CHUNK_INDEX, 24, 3), NO_CHUNK),
    "plain: statistics": Row(PLAIN, flip(Opcode.STATISTICS, 0), "messages, and "),
    "plain: footer": told(PLAIN, flip(Opcode.FOOTER, 0, 3), "its index is damaged: cut off"),
    # One that a program wrote wrong, with the checksum that fits.
    "sealed: start in the index": Row(RUN, flip(CHUNK_INDEX, 6, 3, which=1, is_sealed=True), OTHER),
    "sealed: end in the index": Row(RUN, flip(CHUNK_INDEX, 14, 4, which=1, is_sealed=True), OTHER),
    # A bit of a chunk, and of what is in it.
    "start of a chunk": Row(RUN, flip(CHUNK, 7, 3), DATA),
    "checksum of a chunk": refused(
        RUN, flip(CHUNK, 24, which=1), "is damaged: crc validation failed", lost=SECOND
    ),
    "opcode of a chunk": told(RUN, flip(CHUNK, OPCODE, which=1), HEAD),
    "length of a chunk": told(RUN, flip(CHUNK, LENGTH, 3, which=1), HEAD),
    "a message in a chunk": refused(
        RUN, flip(CHUNK, 300, which=1), "is damaged: crc validation failed", lost=SECOND
    ),
    "plain: start of a chunk": Row(PLAIN, flip(CHUNK, 7, 3, which=4), OTHER_TIMES),
    "plain: end of a chunk": Row(PLAIN, flip(CHUNK, 15, 3, which=4), OTHER_TIMES),
    "plain: length of a message": refused(
        PLAIN, flip(CHUNK, 41, 3, which=4), "is damaged: cut off", lost=FIFTH
    ),
    "plain: length of a chunk": refused(PLAIN, flip(CHUNK, LENGTH + 5, 3, which=4), UNREADABLE, lost=FIFTH),
    "bare: start of a chunk": Row(BARE, flip(CHUNK, 7, 3, which=4), OTHER_TIMES),
    "bare: checksum of a chunk": refused(
        BARE, flip(CHUNK, 24, which=4), "is damaged: crc validation failed", lost=FIFTH
    ),
    "bare: opcode of a chunk": refused(
        BARE, flip(CHUNK, OPCODE, which=4), "opcode 7 cannot stand", lost=FIFTH
    ),
    "bare: length of a chunk": refused(BARE, flip(CHUNK, LENGTH + 5, 3, which=4), UNREADABLE, lost=FIFTH),
    # A bit of what lies between the chunks: no message is lost.
    "length of a message index": told(RUN, flip(INDEX, LENGTH, 3), UNREADABLE),
    "opcode of a message index": told(RUN, flip(INDEX, OPCODE), "a record of opcode 6 cannot stand here"),
    "a message index that is the end": told(RUN, flip(INDEX, OPCODE, 3), UNREADABLE),
    "entry of a message index": Row(RUN, flip(INDEX, 6, 3), DATA),
    "length of a record": told(RUN, flip(METADATA, LENGTH, 3, which=1), UNREADABLE),
    "opcode of a record": told(
        RUN, flip(METADATA, OPCODE, which=1), "a record of opcode 13 cannot stand here"
    ),
    "a record": Row(RUN, flip(METADATA, 60, which=1), DATA),
    "header": Row(RUN, flip(Opcode.HEADER, 5), DATA),
    "length of the header": told(RUN, flip(Opcode.HEADER, LENGTH, 3), UNREADABLE),
    "checksum of the data": Row(RUN, flip(Opcode.DATA_END, 0), DATA),
    "length of the data's end": told(RUN, flip(Opcode.DATA_END, LENGTH), "no record begins here"),
    "opcode of the data's end": told(RUN, flip(Opcode.DATA_END, OPCODE), "nothing ends its data"),
    # metadata.yaml
    "storage_identifier empty": Row(RUN, say(lambda said: said.update(storage_identifier=""))),
    "storage_identifier absent": Row(RUN, say(lambda said: said.pop("storage_identifier"))),
    "message_count absent": told(RUN, say(lambda said: said.pop("message_count")), ANEW),
    "message_count too big": Row(
        RUN, say(lambda said: said.update(message_count=200)), "counts 200 messages"
    ),
    "message_count too small": Row(RUN, say(lambda said: said.update(message_count=9)), "counts 9 messages"),
    "count of a topic too big": refused(
        RUN, tell_of(EXECUTED, message_count=99), f"counts 99 messages of {EXECUTED}, found 44", MISSING
    ),
    "count of a topic too small": Row(
        RUN, tell_of(EXECUTED, message_count=9), f"counts 9 messages of {EXECUTED}, found 44"
    ),
    "another type": Row(RUN, tell_of(EXECUTED, type="std_msgs/msg/String"), "has std_msgs/msg/String of /"),
    "a topic missing": Row(
        RUN, say(lambda said: said["topics_with_message_count"].pop(1)), f"has no word of {EXECUTED}"
    ),
    "metadata empty": told(RUN, lambda bag: (bag / "metadata.yaml").write_text(""), ANEW),
    "metadata cut": told(RUN, cut_metadata, ANEW),
    "metadata absent": refused(RUN, lose_metadata, "no metadata.yaml"),
    # Files
    "files reversed": told(SPLITS, say(lambda said: said["relative_file_paths"].reverse()), "another order"),
    "a file named twice": told(
        SPLITS, say(lambda said: said["relative_file_paths"].append("run_0.mcap")), "names a file twice"
    ),
    "a file not named": told(SPLITS, say(lambda said: said["relative_file_paths"].pop()), "is not named in"),
    "a file absent": refused(
        SPLITS,
        say(lambda said: said["relative_file_paths"].append("run_9.mcap")),
        "run_9.mcap, which is absent",
    ),
    "first file lost": refused(
        SPLITS, lose_file(0), "names run_0.mcap, which is absent", lost=messages_of_file(0)
    ),
    "middle file lost": refused(
        SPLITS, lose_file(1), "names run_1.mcap, which is absent", lost=messages_of_file(1)
    ),
    "last file lost": refused(
        SPLITS, lose_file(2), "names run_2.mcap, which is absent", lost=messages_of_file(2)
    ),
    "first file forgotten": refused(
        SPLITS, lose_file(0, is_named=False), "dropped: run_0.mcap", MISSING, messages_of_file(0)
    ),
    "middle file forgotten": refused(
        SPLITS, lose_file(1, is_named=False), "dropped: run_1.mcap", MISSING, messages_of_file(1)
    ),
    "last file forgotten": refused(
        SPLITS, lose_file(2, is_named=False), "no record of its end", MISSING, messages_of_file(2)
    ),
    "a file copied": Row(
        SPLITS,
        lambda bag: shutil.copy(file_of(bag), bag / "copy_7.mcap"),
        "copy_7.mcap: has number 0",
        "run_0.mcap and copy_7.mcap overlap by 1.0 s",
        lost=lambda bag: -messages_of_file(0)(bag),
        is_refused=True,
        is_mended=False,
    ),
    "cut off": refused(RUN, cut(0.4), "cut off within a record", lost=messages_of_chunk(2)),
}
DRAWN = ("nothing", "statistics", "bare: start of a chunk")  # and those that are refused


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same messages as different programs write them."""
    folder = tmp_path_factory.mktemp("bags")
    run = write_simulated_run(folder / "one" / "run", seconds=1)
    found = {RUN: run, SPLITS: split_run(run, folder / "three" / "run")}
    for name, how in REWRITES.items():
        (folder / name).mkdir()
        found[name] = rewrite(run, folder / name / "run", how)
    return found


@pytest.fixture(scope="module")
def whole(bags: Mapping[str, Path]) -> dict[str, Told]:
    """What the verbs tell of the bag that is not damaged."""
    return {verb: run_verb(words, bags[RUN]) for verb, words in {**STRICT, **LENIENT, **SLOW}.items()}


@pytest.mark.parametrize("name", ROWS)
def test_no_verb_leaves_a_message_out_without_a_word(
    name: str, bags: Mapping[str, Path], whole: Mapping[str, Told], tmp_path: Path
) -> None:
    row = ROWS[name]
    bag = shutil.copytree(bags[row.bag], tmp_path / "run")
    row.damage(bag)
    strict = {**STRICT, **SLOW} if row.is_refused or name in DRAWN else STRICT
    for verb, words in {**strict, **LENIENT}.items():
        found = run_verb(words, bag)
        assert row.said in found.words, verb
        if row.is_refused:
            assert verb in LENIENT or found.code == 2, verb
        else:
            assert (found.code, found.printed, found.made) == (0, whole[verb].printed, whole[verb].made)
            assert row.said or found.words == whole[verb].words, verb
    messages = messages_of_file(0)(bags[RUN]) - row.lost(bags[row.bag])
    _check_verify(row, bag, messages)
    _check_repair(row, bag, tmp_path / "mended", messages)


def _check_verify(row: Row, bag: Path, messages: int) -> None:
    verified = run_verb(VERIFY, bag)
    problems = [one["text"] for one in verified.document["findings"] if one["level"] == "problem"]
    assert verified.code == bool(row.problem), problems
    assert bool(problems) == bool(row.problem)
    assert any(row.problem in text for text in problems) or not row.problem, problems
    assert verified.document["messages"] == messages


def _check_repair(row: Row, bag: Path, out: Path, messages: int) -> None:
    """What `verify` finds wrong is named and written anew, and nothing that can be read is lost with it."""
    repaired = run_verb(REPAIR, bag, out)
    assert repaired.code == 0, repaired.words
    assert out.exists() == bool(row.problem) == bool(repaired.document["lost"])
    if out.exists():
        assert repaired.document["messages"] == messages
    if out.exists() and row.is_mended:
        with BagReader(out) as reader:
            assert len(list(reader.raw_messages())) == messages


def test_a_message_that_changed_in_a_file_without_checksums_breaks_its_digest(
    bags: Mapping[str, Path], tmp_path: Path
) -> None:
    bag = shutil.copytree(bags[PLAIN], tmp_path / "run")
    flip(CHUNK, 2000, which=4)(bag)
    verified = run_verb(VERIFY, bag)
    assert verified.code == 1
    assert "changed after the recording" in verified.words
    assert verified.document["messages"] == messages_of_file(0)(bags[RUN])
