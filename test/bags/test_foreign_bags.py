# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bags of other releases are refused when they are opened; those of other projects and robots are read."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from remote_inference import __version__
from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import TOPIC_TYPES, BagError
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.bags.storage.message_decoder import message_definition
from remote_inference.tools.cli import main
from support.recording.asked_run import write_policy
from support.recording.decision_bag import NS, OWN
from support.recording.simulated_run import BEGIN_NS, write_simulated_run

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
    "verify --repair": ("verify", "BAG", "--repair", "OUT"),
    "replay --decisions": ("replay", "--decisions", "BAG"),
    "replay --decisions --set": ("replay", "--decisions", "BAG", "--set", "max_action_age_s=1"),
    "replay --policy": ("replay", "--policy", "MANIFEST", "BAG"),
}
EXPECTED = f", expected the messages of version {__version__} of this package"
DOUBLE = b"\x00\x01\x00\x00" + struct.pack("<d", 0.5)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_simulated_run(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_policy(tmp_path_factory.mktemp("policy"))


def _fill(word: str, names: Mapping[str, Path]) -> str:
    for name, path in names.items():
        word = word.replace(name, str(path))
    return word


def write_bag(path: Path, kinds: Mapping[str, str], definitions: Mapping[str, str]) -> Path:
    """Write a bag with a message of 0.5 on each topic. kinds: types by topic. definitions: texts by type."""
    store = get_typestore(Stores.EMPTY)
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as bag:
        for number, (topic, kind) in enumerate(kinds.items()):
            store.register(get_types_from_msg(definitions.get(kind) or message_definition(kind), kind))
            bag.write(bag.add_connection(topic, kind, typestore=store), BEGIN_NS + number, DOUBLE)
    return path


def write_own_topics(path: Path, kind: str, before: str, after: str) -> Path:
    """Write a bag with the topics of a robot, the definition of one type changed."""
    changed = message_definition(kind).replace(before, after, 1)
    assert after in changed
    return write_bag(path, {f"{OWN}/{name}": one for name, one in TOPIC_TYPES.items()}, {kind: changed})


@pytest.mark.parametrize("reader", [name for name in READERS if not name.startswith("verify")])
@pytest.mark.parametrize(
    ("kind", "before", "after", "found"),
    [
        ("executed", "uint64 tick ", "uint64 number ", "without tick, with number"),
        ("executed", "uint64 tick ", "string tick ", "with tick as string instead of uint64"),
        ("state", "string cause", "string cause_now", "without cause, with cause_now"),
        ("chunk", "uint64 seq_id", "float64[] novelties\nuint64 seq_id", "with novelties"),
        ("watchdog", "std_msgs/Header header", "", "without header, without header.stamp"),
    ],
)
def test_a_bag_of_another_release_is_refused_in_one_line_when_it_is_opened(
    kind: str,
    before: str,
    after: str,
    found: str,
    reader: str,
    manifest: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "bags"
    folder.mkdir()
    bag = write_own_topics(folder / "bag", TOPIC_TYPES[kind], before, after)
    names = {"BAG": bag, "OUT": tmp_path / "out", "MANIFEST": manifest}
    assert main([_fill(word, names) for word in READERS[reader]]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{bag}: {OWN}/{kind}: found {TOPIC_TYPES[kind]} {found}" in line
    assert line.endswith(EXPECTED)
    assert list(tmp_path.iterdir()) == [folder], "what cannot be read leaves nothing"


def test_a_nested_type_of_another_release_is_refused(tmp_path: Path) -> None:
    kind = TOPIC_TYPES["state"]
    text = message_definition(kind).replace("string frame_id", "string frame", 1)
    bag = write_bag(tmp_path / "bag", {f"{OWN}/state": kind}, {kind: text})
    found = r"found .*/ClientState without header\.frame_id, with header\.frame, expected"
    with pytest.raises(BagError, match=found):
        BagReader(bag)


def test_verify_says_that_messages_of_another_release_cannot_be_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bag = write_own_topics(tmp_path / "bag", TOPIC_TYPES["chunk"], "string policy_version", "string version")
    main(["verify", str(bag)])
    told = " ".join(capsys.readouterr().out.split())
    assert f"messages of {OWN}/chunk cannot be followed: found {TOPIC_TYPES['chunk']} without" in told


def test_another_type_on_a_topic_of_this_package_is_refused(tmp_path: Path) -> None:
    bag = write_bag(
        tmp_path / "bag", {f"{OWN}/executed": "their_msgs/msg/Pose"}, {"their_msgs/msg/Pose": "float64 x"}
    )
    expected = f"{OWN}/executed: found their_msgs/msg/Pose, expected {TOPIC_TYPES['executed']}"
    with pytest.raises(BagError, match=expected):
        BagReader(bag)


def test_bags_of_other_projects_and_with_standard_types_only_are_read(tmp_path: Path) -> None:
    kinds = {"/pose": "their_msgs/msg/Pose", "/number": "std_msgs/msg/Float64"}
    with BagReader(write_bag(tmp_path / "bag", kinds, {"their_msgs/msg/Pose": "float64 x"})) as reader:
        assert [message.x for _, _, message in reader.messages(["/pose"])] == [0.5]
        assert [message.data for _, _, message in reader.messages(["/number"])] == [0.5]


def test_a_standard_type_that_lacks_a_field_keeps_nobody_from_the_other_topics(tmp_path: Path) -> None:
    kinds = {"/short": "std_msgs/msg/Float64", "/long": "std_msgs/msg/Float32"}
    definitions = {
        "std_msgs/msg/Float64": "float64 number",
        "std_msgs/msg/Float32": "float32 data\nfloat32 more",
    }
    with BagReader(write_bag(tmp_path / "bag", kinds, definitions)) as reader:
        assert len(list(reader.messages(["/long"]))) == 1, "further fields do no harm"
        with pytest.raises(BagError, match="/short: found std_msgs/msg/Float64 without data, expected"):
            list(reader.messages(["/short"]))


def test_a_topic_whose_type_cannot_be_read_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    """Recorders on machines without a message's package write topics whose definition is empty."""
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg("float64 x", "their_msgs/msg/Known"))
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as bag:
        known = bag.add_connection("/known", "their_msgs/msg/Known", typestore=store)
        bag.write(known, BEGIN_NS, DOUBLE)
        unknown = bag.add_connection("/unknown", "their_msgs/msg/Lost", msgdef="", rihs01="RIHS01_0")
        bag.write(unknown, BEGIN_NS + 1, b"\x00\x01\x00\x00")
    with BagReader(tmp_path / "bag") as reader:
        assert [message.x for _, _, message in reader.messages(["/known"])] == [0.5]
        with pytest.raises(BagError, match="/unknown: message type 'their_msgs/msg/Lost': no definition"):
            list(reader.messages())


@pytest.fixture(scope="module")
def two(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two robots that did the same."""
    folder = tmp_path_factory.mktemp("two")
    with BagReader(whole) as one:
        topics = list(one.topics.values())
        topics += [replace(topic, name=topic.name.replace(NS, "/robot_2")) for topic in topics]
        with BagWriter(folder / "both", topics, contract=one.contract) as both:
            for topic, stamp_ns, data in one.raw_messages():
                both.write(topic, stamp_ns, data)
                both.write(topic.replace(NS, "/robot_2"), stamp_ns, data)
    return folder / "both"


@pytest.mark.parametrize("reader", [name for name in READERS if name not in {"verify", "verify --repair"}])
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


@pytest.mark.parametrize("verb", ["verify", "verify --repair"])
def test_two_robots_are_verified_and_repaired_together(two: Path, tmp_path: Path, verb: str) -> None:
    names = {"BAG": two, "OUT": tmp_path / "out"}
    assert main([_fill(word, names) for word in READERS[verb]]) == 0
