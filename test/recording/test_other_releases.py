# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bags of other releases and other projects are read as far as they can be, or refused in one line.

Robots are updated one by one, and bags outlive them all: what a field is called is known by nobody for ever.
"""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from remote_inference.cli import main
from remote_inference.errors import UserError
from remote_inference.recording.bags.bag import open_bag
from remote_inference.recording.bags.bag_error import BagError
from remote_inference.recording.bags.bag_writer import BagWriter
from remote_inference.recording.export.export import find_contract
from remote_inference.recording.timeline.commands import read_commands
from remote_inference.recording.timeline.timeline_reader import find_namespace
from support.recording.asked_run import write_policy
from support.recording.decision_bag import NS, OWN
from support.recording.other_release import grown, renamed, retyped, rewrite
from support.recording.simulated_run import BEGIN_NS, document, write_simulated_run

STATE, EXECUTED, CHUNK, OBSERVATION, DECISIONS = (
    f"remote_inference/msg/{name}"
    for name in ("ClientState", "ExecutedAction", "ActionChunk", "Observation", "Decisions")
)
OWN_TYPES = (STATE, EXECUTED, CHUNK, OBSERVATION, DECISIONS)
# Verbs that read a bag, by what they are asked; OUT is a path that is not there.
READERS = {
    "explain": ("explain", "BAG", "--out", "OUT.png"),
    "explain --at": ("explain", "BAG", "--at", "1.5"),
    "explain --command": ("explain", "BAG", "--command", "30"),
    "explain --html": ("explain", "BAG", "--html", "OUT.html"),
    "export --csv": ("export", "BAG", "--csv", "OUT.csv"),
    "export --parquet": ("export", "BAG", "--parquet", "OUT.parquet", "--drop", "failed"),
    "export --lerobot-v3": ("export", "BAG", "--lerobot-v3", "OUT"),
    "verify": ("verify", "BAG"),
    "repair": ("repair", "BAG", "OUT"),
    "replay --decisions": ("replay", "--decisions", "BAG"),
    "replay --decisions --set": ("replay", "--decisions", "BAG", "--set", "max_action_age_s=1"),
    "replay --policy": ("replay", "--policy", "MANIFEST", "BAG"),
}
LATER_CONTRACT = json.dumps({**document(), "novelty": [1]})
ALIKE = {"explain --command", "export --parquet", "replay --decisions --set"}  # read as others do
Write = Callable[[Path, Path], object]  # from a whole bag, to a path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_simulated_run(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_policy(tmp_path_factory.mktemp("policy"))


def with_value(ending: str, **values: Any) -> Write:
    """Return what writes a bag in which messages of a topic hold values that only a later release knows."""

    def write(source: Path, target: Path) -> None:
        seen = 0

        def change(topic: str, message: Any) -> None:
            nonlocal seen
            if topic.endswith(f"/{ending}"):
                seen += 1
                for name, value in values.items() if seen > 1 else ():
                    setattr(message, name, value)

        rewrite(source, target, change=change)

    return write


def with_definition(msgtype: str, change: Callable[[str], str]) -> Write:
    return lambda source, target: rewrite(source, target, {msgtype: change})


def bag_of(path: Path, topics: dict[str, str]) -> None:
    """Write a bag of another project: a message a topic, of types that are not installed here."""
    store = get_typestore(Stores.EMPTY)
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as bag:
        for number, (topic, definition) in enumerate(topics.items()):
            msgtype = f"their_msgs/msg/Kind{number}"
            store.register(get_types_from_msg(definition, msgtype))
            connection = bag.add_connection(topic, msgtype, typestore=store)
            bag.write(connection, BEGIN_NS, b"\x00\x01\x00\x00" + struct.pack("<d", 1.0))


def of_another_project(source: Path, target: Path) -> None:
    bag_of(target, {"/base/pose": "float64 x\n", "/lidar/points": "float64 range\n"})


def of_another_project_with_our_topic(source: Path, target: Path) -> None:
    bag_of(target, {f"{OWN}/{kind}": "float64 x\n" for kind in ("executed", "state", "chunk", "observation")})


CHANGES: dict[str, Write] = {
    "a state of later": with_value("state", state=6, state_name="HESITATING"),
    "a source of later": with_value("executed", source=7),
    "the last unknown source": with_value("executed", source=99),
    "a status of later": with_value("chunk", status=9),
    "a journal of later": with_value("decisions", data=np.array([0x93, 1, 2], np.uint8)),
    "a contract of later": lambda source, target: rewrite(source, target, contract=LATER_CONTRACT),
    "more of everything": lambda source, target: rewrite(source, target, dict.fromkeys(OWN_TYPES, grown)),
    **{
        f"no {name} of {topic}": with_definition(kind, renamed(name))
        for topic, kind, names in (
            ("executed", EXECUTED, ("tick", "joint_names", "shadow", "header")),
            ("state", STATE, ("state", "cause")),
            ("chunk", CHUNK, ("status",)),
            ("observation", OBSERVATION, ("seq_id",)),
            ("decisions", DECISIONS, ("data",)),
            ("joint_states", "sensor_msgs/msg/JointState", ("position",)),
        )
        for name in names
    },
    "state as text": with_definition(STATE, retyped("state", "string")),
    "tick as text": with_definition(EXECUTED, retyped("tick", "string")),
    "action as a number": with_definition(EXECUTED, retyped("action", "float64")),
    "another project": of_another_project,
    "another project with our topics": of_another_project_with_our_topic,
}


@pytest.fixture(scope="module")
def changed(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what gives the bag of a change, which is written once."""
    folder = tmp_path_factory.mktemp("changed")

    def bag_with(name: str) -> Path:
        path = folder / name.replace(" ", "_")
        if not path.exists():
            CHANGES[name](whole, path)
        return path

    return bag_with


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("reader", [name for name in READERS if name not in ALIKE])
def test_a_bag_of_others_is_read_as_far_as_it_can_be_or_refused_in_a_line(
    changed: Callable[[str], Path],
    manifest: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    reader: str,
    name: str,
) -> None:
    bag = changed(name)
    names = {"BAG": bag, "OUT": tmp_path / "out", "MANIFEST": manifest}
    code = main([_fill(word, names) for word in READERS[reader]])
    told = capsys.readouterr()
    assert code in {0, 1, 2}
    if code == 2 and "cannot be judged: " not in told.out:
        (line,) = told.err.splitlines()
        assert str(bag) in line
        assert "expected" in line
        assert not list(tmp_path.iterdir()), "what cannot be read leaves nothing"
    else:
        assert not told.err


def _fill(word: str, names: dict[str, Path]) -> str:
    for name, path in names.items():
        word = word.replace(name, str(path))
    return word


def test_a_motion_is_explained_without_the_topic_that_is_not_understood(
    changed: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(changed("no cause of state")), "--at", "1.5", "--json"]) == 0
    motion = json.loads(capsys.readouterr().out)
    assert motion["command"]["source"] == "CHUNK"
    assert motion["request"] is not None
    (missing,) = (text for text in motion["missing"] if "ClientState" in text)
    assert missing.endswith(": the node's state and its causes are not known")


@pytest.mark.parametrize("name", CHANGES)
def test_an_arm_is_driven_by_such_a_bag_s_commands_or_not_at_all(
    whole: Path, changed: Callable[[str], Path], name: str
) -> None:
    """What `replay --arm` reads before it moves anything."""
    bag, found, refusal = changed(name), commands_of(whole), ""
    try:
        found = commands_of(bag)
    except UserError as error:
        refusal = str(error)
    assert found == commands_of(whole)
    assert not refusal or (str(bag) in refusal and "\n" not in refusal)


def commands_of(path: Path) -> list[list[float]]:
    with open_bag(path) as bag:
        namespace = find_namespace(bag, None)
        return read_commands(bag, namespace, find_contract([path], None)).rows.tolist()


@pytest.mark.parametrize(
    ("change", "verb", "words"),
    [
        (
            "no cause of state",
            "explain",
            f"{OWN}/state: found {STATE} without cause, expected the messages of version",
        ),
        ("no tick of executed", "export --csv", f"{OWN}/executed: found {EXECUTED} without tick, expected"),
        ("tick as text", "explain", f"found {EXECUTED} with tick as string instead of uint64, expected"),
        ("no seq_id of observation", "replay --policy", "has other fields than the installed Observation"),
        ("another project", "explain", "no robot in the bag, expected a topic */remote_inference/executed"),
        (
            "another project with our topics",
            "explain --at",
            "/executed: found their_msgs/msg/Kind0 without source, expected the messages",
        ),
    ],
)
def test_a_refusal_says_what_was_found_where_and_expected(
    changed: Callable[[str], Path],
    manifest: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: str,
    verb: str,
    words: str,
) -> None:
    names = {"BAG": changed(change), "OUT": tmp_path / "out", "MANIFEST": manifest}
    assert main([_fill(word, names) for word in READERS[verb]]) == 2
    assert words in capsys.readouterr().err


def test_what_a_later_release_counts_is_told_by_its_name_or_number(
    changed: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bag, table = tmp_path / "bag", tmp_path / "ticks.csv"
    CHANGES["a source of later"](changed("a state of later"), bag)
    assert main(["export", str(bag), "--csv", str(table), "--quiet"]) == 0
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["source"] for row in rows[1:]} == {"7"}
    assert rows[-1]["client_state"] == "HESITATING"
    assert main(["explain", str(bag), "--out", str(tmp_path / "run.png")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "what this version does not know (source 7)" in told
    assert "HESITATING" in told
    assert main(["explain", str(bag), "--at", "1.5", "--json"]) == 0
    motion = json.loads(capsys.readouterr().out)
    assert (motion["command"]["source"], motion["standing"]["state"]) == ("7", "HESITATING")


def test_a_topic_whose_type_cannot_be_read_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    """Recorders on machines without a message's package write topics whose definition is empty."""
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg("float64 x", "their_msgs/msg/Known"))
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as bag:
        known = bag.add_connection("/known", "their_msgs/msg/Known", typestore=store)
        bag.write(known, BEGIN_NS, b"\x00\x01\x00\x00" + struct.pack("<d", 0.5))
        unknown = bag.add_connection("/unknown", "their_msgs/msg/Lost", msgdef="", rihs01="RIHS01_0")
        bag.write(unknown, BEGIN_NS + 1, b"\x00\x01\x00\x00")
    with open_bag(tmp_path / "bag") as reader:
        assert [message.x for _, _, message in reader.messages(["/known"])] == [0.5]
        with pytest.raises(BagError, match="/unknown: message type 'their_msgs/msg/Lost': no definition"):
            list(reader.messages())


@pytest.fixture(scope="module")
def two(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two robots that did the same."""
    folder = tmp_path_factory.mktemp("two")
    rename = {topic: topic.replace(NS, "/robot_2") for topic in _topics(whole)}
    _merge(whole, rewrite(whole, folder / "other", rename=rename), folder / "both")
    return folder / "both"


@pytest.mark.parametrize("reader", [name for name in READERS if name not in {"verify", "repair"}])
def test_of_two_robots_one_is_to_be_named(
    two: Path, manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], reader: str
) -> None:
    names = {"BAG": two, "OUT": tmp_path / "out", "MANIFEST": manifest}
    words = [_fill(word, names) for word in READERS[reader]]
    assert main(words) == 2
    assert f"{two}: several robots in the bag, name one: {NS}, /robot_2 (--namespace)" in (
        capsys.readouterr().err
    )
    assert main([*words, "--namespace", "/robot_2"]) == 0


@pytest.mark.parametrize("verb", ["verify", "repair"])
def test_two_robots_are_verified_and_repaired_together(two: Path, tmp_path: Path, verb: str) -> None:
    names = {"BAG": two, "OUT": tmp_path / "out"}
    assert main([_fill(word, names) for word in READERS[verb]]) == 0


def _topics(path: Path) -> list[str]:
    with open_bag(path) as bag:
        return list(bag.topics)


def _merge(one: Path, other: Path, target: Path) -> None:
    """Write the messages of two bags into one, with the contract of the first."""
    with open_bag(one) as first, open_bag(other) as second:
        topics = [*first.topics.values(), *second.topics.values()]
        messages = sorted([*first.raw_messages(), *second.raw_messages()], key=lambda message: message[1])
        with BagWriter(target, topics, contract=first.contract) as bag:
            for topic, stamp_ns, data in messages:
                bag.write(topic, stamp_ns, data)
