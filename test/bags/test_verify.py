# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A bag that was changed, cut or mixed is told from one that was not, in words that say where."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rclpy.serialization import serialize_message
from rosbags.rosbag2 import StoragePlugin, Writer
from sensor_msgs.msg import JointState
from std_msgs.msg import UInt64

from remote_inference.bags.checks.check import Level, Verification
from remote_inference.bags.checks.repair import McapCopy
from remote_inference.bags.checks.verification import verify
from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import CLOCK, CONTRACT_KEY, LOSSES, BagTopic
from remote_inference.bags.storage.bag_writer import BagLimits, BagWriter
from remote_inference.bags.storage.mcap_scan import Messages, MetadataRecord, ScannedMessage, scan_file
from remote_inference.msg import ActionChunk, ExecutedAction, Observation
from remote_inference.tools.cli import main

START_NS = 1_790_000_000 * 10**9
UNBOUND = BagLimits()
COUNT = BagTopic("/count", "std_msgs/msg/UInt64")
NS = "/arm/remote_inference"
OWN = {
    f"{NS}/observation": "remote_inference/msg/Observation",
    f"{NS}/chunk": "remote_inference/msg/ActionChunk",
    f"{NS}/executed": "remote_inference/msg/ExecutedAction",
}


def count_into(
    path: Path, numbers: Iterator[int] | range = range(50), limits: BagLimits = UNBOUND, **facts: str
) -> Path:
    """Write ten messages a second, each with its number."""
    with BagWriter(path, [COUNT], limits=limits, facts=facts) as bag:
        for number in numbers:
            cdr = serialize_message(UInt64(data=number))
            bag.write(COUNT.name, START_NS + number * 10**8, cdr, sequence=number + 1)
    return path


def texts(result: Verification, level: Level = Level.PROBLEM) -> list[str]:
    return [f"{finding.check}: {finding.text}" for finding in result.of(level)]


def tamper(
    file: Path,
    change_messages: Callable[[list[ScannedMessage]], list[ScannedMessage]] = lambda messages: messages,
    change_record: Callable[[str, dict[str, str]], dict[str, str]] = lambda _, values: values,
) -> None:
    """Write a file anew, with all of its checksums and its index in order: only the digests can tell."""
    items = list(scan_file(file))
    file.unlink()
    copy = McapCopy(file)
    for item in items:
        if isinstance(item, Messages):
            copy.add_chunk(change_messages(item.messages))
        elif isinstance(item, MetadataRecord):
            copy.add_record(item.name, change_record(item.name, item.values))
    copy.close()


def test_an_untouched_bag_is_intact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bag = count_into(tmp_path / "bag", limits=BagLimits(max_split_duration_s=2.0))
    result = verify(bag)
    assert result.is_intact
    assert not result.of(Level.MISSING)
    assert (result.files, result.counts) == (3, {COUNT.name: 50})
    assert (result.start_ns, result.end_ns) == (START_NS, START_NS + 49 * 10**8)
    assert main(["verify", str(bag)]) == 0
    out = capsys.readouterr().out
    assert f"the last digest is {result.digest}" in out
    assert out.endswith("intact\n")


def test_a_file_copied_chunk_by_chunk_is_the_same_to_the_digests(tmp_path: Path) -> None:
    bag = count_into(tmp_path / "bag")
    tamper(bag / "bag_0.mcap")
    assert verify(bag).is_intact


def changed(messages: list[ScannedMessage], at_ns: int) -> list[ScannedMessage]:
    """Change the last byte of the message of an instant."""
    return [
        replace(message, data=message.data[:-1] + b"\xff") if message.log_time_ns == at_ns else message
        for message in messages
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda messages: changed(messages, START_NS + 25 * 10**8), "10 messages, or a record"),
        (lambda messages: [m for m in messages if m.sequence != 25], "found 9 messages, recorded were 10"),
        (
            lambda messages: [replace(m, publish_time_ns=5) if m.sequence == 25 else m for m in messages],
            "changed",
        ),
        (lambda messages: [replace(m, sequence=99) if m.sequence == 25 else m for m in messages], "changed"),
    ],
    ids=["byte", "removed", "time", "number"],
)
def test_a_changed_message_is_found_and_the_rest_is_not_blamed(
    change: Callable[[list[ScannedMessage]], list[ScannedMessage]], words: str, tmp_path: Path
) -> None:
    bag = count_into(tmp_path / "bag")
    links = verify(bag).links
    tamper(bag / "bag_0.mcap", change)
    result = verify(bag)
    (digest,) = [text for text in texts(result) if text.startswith("digests: ")]
    assert digest.startswith("digests: bag_0.mcap: from 2026-09-21 14:13:2")
    assert words in digest
    assert result.links == links - 1


def test_a_changed_record_or_definition_is_found(tmp_path: Path) -> None:
    bag = count_into(tmp_path / "bag", recorder="{}")
    tamper(
        bag / "bag_0.mcap",
        change_record=lambda name, values: {**values, "recorder": "{1}"} if name.endswith("run") else values,
    )
    assert any("changed after the recording" in text for text in texts(verify(bag)))
    other = count_into(tmp_path / "other")
    tamper(
        other / "other_0.mcap",
        lambda messages: [
            replace(m, channel=replace(m.channel, definition=m.channel.definition + b"# 1")) for m in messages
        ],
    )
    assert len([text for text in texts(verify(other)) if "changed after" in text]) >= 4


def test_files_that_were_removed_exchanged_or_added_are_found(tmp_path: Path) -> None:
    limits = BagLimits(max_split_duration_s=2.0)

    def problems(name: str, harm: Callable[[Path], object]) -> str:
        bag = count_into(tmp_path / name, limits=limits)
        harm(bag)
        return "\n".join(texts(verify(bag)))

    def forget(bag: Path, number: int) -> None:
        """Remove a file, and every trace of it in metadata.yaml."""
        name = f"{bag.name}_{number}.mcap"
        metadata = yaml.safe_load((bag / "metadata.yaml").read_text())
        content = metadata["rosbag2_bagfile_information"]
        content["relative_file_paths"].remove(name)
        (file,) = [file for file in content["files"] if file["path"] == name]
        content["message_count"] -= file["message_count"]
        (bag / "metadata.yaml").write_text(yaml.safe_dump(metadata))
        (bag / name).unlink()

    assert "metadata.yaml names a_1.mcap, which is absent" in problems(
        "a", lambda b: (b / "a_1.mcap").unlink()
    )
    assert "1 file absent that the bag has not dropped: b_1.mcap" in problems("b", lambda b: forget(b, 1))
    assert "1 file absent that the bag has not dropped: c_0.mcap" in problems("c", lambda b: forget(b, 0))
    assert "the bag has no record of its end" in problems("d", lambda b: forget(b, 2))
    stranger = count_into(tmp_path / "stranger", limits=limits)
    assert "e_1.mcap: is a file of another bag" in problems(
        "e", lambda b: (b / "e_1.mcap").write_bytes((stranger / "stranger_1.mcap").read_bytes())
    )
    assert "f_9.mcap is not named in metadata.yaml" in problems(
        "f", lambda b: (b / "f_9.mcap").write_bytes((b / "f_2.mcap").read_bytes())
    )


def test_files_that_the_budget_dropped_are_no_problem(tmp_path: Path) -> None:
    limits = BagLimits(max_split_bytes=4096, max_bytes=1_200_000, when_full="drop_oldest")
    bag = count_into(tmp_path / "bag", range(2000), limits)
    result = verify(bag)
    assert result.is_intact, result.findings
    (missing,) = texts(result, Level.MISSING)
    assert missing.endswith("dropped by the disk budget")


def test_losses_that_the_recorder_counted_are_missing_and_others_are_a_problem(tmp_path: Path) -> None:
    numbers = [number for number in range(50) if number not in {20, 21, 22}]
    told, silent = tmp_path / "told", tmp_path / "silent"
    for path in (told, silent):
        with BagWriter(path, [COUNT]) as bag:
            for number in numbers:
                cdr = serialize_message(UInt64(data=number))
                bag.write(COUNT.name, START_NS + number * 10**8, cdr, sequence=number + 1)
            losses = {"queue": json.dumps({COUNT.name: 2}), "before": json.dumps({COUNT.name: 1})}
            if path is told:
                bag.add_record(LOSSES, {**losses, "uncounted": "[]"}, kept_for="")
    (missing,) = texts(verify(told), Level.MISSING)
    assert verify(told).is_intact
    assert missing.startswith("gaps: /count: 3 messages missing, the first at 2026-09-21 14:13:22.300 UTC; ")
    assert missing.endswith("the recorder lost 2 in its queue, 1 before they reached it")
    (problem,) = texts(verify(silent))
    assert problem.endswith("the recorder says that it lost 0")


def test_clocks_that_jump_are_told(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "set", [COUNT]) as bag:
        for number in range(20):
            bag.write(COUNT.name, START_NS + number * 10**8, serialize_message(UInt64(data=number)))
        at_ns = str(START_NS + 10**9)
        bag.add_record(CLOCK, {"at_ns": at_ns, "jump_s": "-100.000", "ahead_s": "-100.000"})
    result = verify(tmp_path / "set")
    assert result.is_intact
    assert any(
        "the wall clock jumped by -100.000 s at 2026-09-21 14:13:21" in t for t in texts(result, Level.NOTE)
    )
    with BagWriter(tmp_path / "back", [COUNT]) as bag:
        for number in range(20):
            stamp_ns = START_NS + number * 10**8 - (30 * 10**9 if number > 9 else 0)
            bag.write(COUNT.name, stamp_ns, serialize_message(UInt64(data=number)))
    (problem,) = texts(verify(tmp_path / "back"))
    assert problem.startswith("order: times of reception go back 1 time, at most by 29.900 s (/count at ")
    with BagReader(tmp_path / "back") as reader:
        assert reader.message_count == 20


def record_ids(path: Path, robots: tuple[str, ...] = ("",), **missing: set[int]) -> Path:
    """Record requests 1 to 5, their chunks of 10 rows, and 5 ticks of each; missing: numbers by kind."""
    topics = [BagTopic(robot + name, kind) for robot in robots for name, kind in OWN.items()]
    with BagWriter(path, topics) as bag:
        stamp_ns = START_NS

        def write(kind: str, number: int, message: object) -> None:
            nonlocal stamp_ns
            stamp_ns += 10**7
            if number not in missing.get(kind, set()):
                for robot in robots:
                    bag.write(f"{robot}{NS}/{kind}", stamp_ns, serialize_message(message))

        for seq in range(1, 6):
            write("observation", seq, Observation(session_id="s", seq_id=seq))
            write("chunk", seq, ActionChunk(session_id="s", seq_id=seq, horizon=10))
            for step in range(5):
                tick = seq * 5 + step
                row = ExecutedAction(session_id="s", seq_id=seq, step_index=step, tick=tick)
                row.source, row.action_age_s = ExecutedAction.CHUNK, math.nan
                write("executed", tick, row)
    return path


def test_ids_are_followed_from_command_to_request(tmp_path: Path) -> None:
    assert not texts(verify(record_ids(tmp_path / "whole")), Level.MISSING)

    def missing(name: str, **numbers: set[int]) -> list[str]:
        return texts(verify(record_ids(tmp_path / name, **numbers)), Level.MISSING)

    assert missing("rows", executed={12, 13}) == ["ids: /arm: no executed action of 2 control ticks"]
    (chunk,) = missing("chunk", chunk={3})
    assert chunk.startswith(
        "ids: /arm: 5 executed actions whose chunk is not in the bag, the first at 2026-09-21"
    )
    (request,) = missing("request", observation={3})
    assert request.startswith("ids: /arm: 1 chunks whose request is not in the bag, the first at ")


def test_two_robots_and_absent_topics_are_named(tmp_path: Path) -> None:
    result = verify(record_ids(tmp_path / "two", ("/a", "/b")))
    assert result.is_intact
    assert "ids: 2 robots: /a/arm, /b/arm; other verbs take one of them by --namespace" in texts(
        result, Level.NOTE
    )
    result = verify(record_ids(tmp_path / "no_chunks", chunk=set(range(9))))
    assert "ids: /arm: no messages of chunk: what names them cannot be followed" in texts(result, Level.NOTE)


def test_a_bag_of_another_version_is_read_by_its_own_definitions(tmp_path: Path) -> None:
    bag = count_into(tmp_path / "bag", package_version="0.0.1")
    result = verify(bag)
    assert result.is_intact
    assert any("recorded with version 0.0.1 of the package" in text for text in texts(result, Level.NOTE))


def test_a_bag_of_another_recorder_is_read_without_digests(tmp_path: Path) -> None:
    path = tmp_path / "foreign"
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection(
            "/j", "sensor_msgs/msg/JointState", msgdef="float64[] position", rihs01="RIHS01_0"
        )
        for number in range(5):
            writer.write(connection, START_NS + number, serialize_message(JointState()))
    result = verify(path)
    assert result.is_intact
    notes = "\n".join(texts(result, Level.NOTE))
    assert "no digests: another recorder wrote the bag" in notes
    assert "the messages have no numbers" in notes
    assert "no robot of this package in the bag" in notes


def test_what_is_no_mcap_bag_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusal(path: Path) -> str:
        assert main(["verify", str(path)]) == 2
        return capsys.readouterr().err

    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    with Writer(tmp_path / "sqlite", version=9, storage_plugin=StoragePlugin.SQLITE3):
        pass
    with Writer(tmp_path / "packed", version=9, storage_plugin=StoragePlugin.MCAP):
        pass
    metadata = tmp_path / "packed" / "metadata.yaml"
    metadata.write_text(metadata.read_text().replace("compression_mode: ''", "compression_mode: FILE"))
    for repair in ((), ("--repair", str(tmp_path / "out"))):
        assert main(["verify", str(tmp_path / "packed"), *repair]) == 2
        assert "found files that ros2 bag compressed by file; `ros2 bag" in capsys.readouterr().err
    assert "nothing: no bag there" in refusal(tmp_path / "nothing")
    assert "empty: no bag there: found no .mcap file" in refusal(tmp_path / "empty")
    assert "file: found a file, expected the folder of a bag" in refusal(tmp_path / "file")
    assert "found a bag of sqlite3 files, expected MCAP files" in refusal(tmp_path / "sqlite")


def test_json_has_every_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bag = count_into(tmp_path / "bag")
    (bag / "metadata.yaml").unlink()
    assert main(["verify", str(bag), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["intact"], found["messages"], found["topics"]) == (False, 50, {"/count": 50})
    assert any(finding["level"] == "problem" and "repair" in finding["text"] for finding in found["findings"])
    assert main(["verify", str(bag), "--quiet"]) == 1
    assert capsys.readouterr().out.startswith("problem: files: no metadata.yaml: ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda meta: meta["custom_data"].update({CONTRACT_KEY: "fps: 31"}), "another contract"),
        (lambda meta: meta["topics_with_message_count"].clear(), f"has no word of {COUNT.name}, found"),
        (
            lambda meta: meta["topics_with_message_count"][0]["topic_metadata"].update(
                type="std_msgs/msg/Int64"
            ),
            "std_msgs/msg/Int64",
        ),
        (
            lambda meta: meta["starting_time"].update(nanoseconds_since_epoch=START_NS + 5 * 10**8),
            "another time of begin",
        ),
        (lambda meta: meta.pop("starting_time"), "lacks topics, times"),
    ],
    ids=["contract", "topic", "type", "begin", "absent"],
)
def test_what_metadata_says_otherwise_than_the_files_is_found(
    tmp_path: Path, change: Callable[[Any], object], words: str
) -> None:
    """Readers believe it: they would explain other limits, or another instant."""
    path = tmp_path / "bag"
    with BagWriter(path, [COUNT], contract="fps: 30") as bag:
        for number in range(20):
            bag.write(COUNT.name, START_NS + number * 10**8, serialize_message(UInt64(data=number)))
    assert verify(path).is_intact
    file = path / "metadata.yaml"
    document = yaml.safe_load(file.read_text())
    change(document["rosbag2_bagfile_information"])
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    assert any(words in text for text in texts(verify(path))) or words == "lacks topics, times"
    assert not verify(path).is_intact


def test_the_duration_that_ros2_bag_reindex_writes_is_no_damage(tmp_path: Path) -> None:
    """It adds up those of the files, without the time between them, and names none of their contents."""
    bag = count_into(tmp_path / "bag", limits=BagLimits(max_split_duration_s=2.0))
    file = bag / "metadata.yaml"
    document = yaml.safe_load(file.read_text())
    said = document["rosbag2_bagfile_information"]
    said["duration"]["nanoseconds"] -= 10**8
    said["files"] = []
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    result = verify(bag)
    assert result.is_intact
    assert any("another duration" in text for text in texts(result, Level.NOTE))
    with BagReader(bag) as reader:
        assert len(list(reader.messages())) == 50
        assert reader.end_ns == START_NS + 49 * 10**8


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (LOSSES, {"queue": "[1]", "before": "{}", "uncounted": "[]"}),
        (LOSSES, {"queue": '{"/a": "many"}', "before": "{}", "uncounted": "[]"}),
        (LOSSES, {"queue": "{}", "before": "{}", "uncounted": "[[1]]"}),
        (CLOCK, {"at_ns": "nan", "jump_s": "1", "ahead_s": "1"}),
        (CLOCK, {"at_ns": "inf", "jump_s": "1", "ahead_s": "1"}),
    ],
)
def test_a_record_that_makes_no_sense_is_a_problem_in_words(
    tmp_path: Path, name: str, values: dict[str, str]
) -> None:
    path = tmp_path / "bag"
    with BagWriter(path, [COUNT]) as bag:
        bag.write(COUNT.name, START_NS, serialize_message(UInt64(data=1)))
        bag.add_record(name, values)
    assert main(["verify", str(path)]) in {0, 1}
    assert any(f"record {name}" in text for text in texts(verify(path))) or name == LOSSES
