# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A bag is split, keeps to its budget, and says in each of its files what it belongs to."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from mcap.reader import make_reader
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import (
    DROPPED,
    END,
    LINK,
    LOSSES,
    NODE,
    RUN,
    SEQUENCES,
    SPLIT,
    BagClock,
    BagTopic,
    LossReport,
    LostMessages,
)
from remote_inference.bags.storage.bag_writer import (
    BagLimits,
    BagWriter,
    DiskBudgetError,
    WhenFull,
    make_room,
)
from remote_inference.bags.storage.split_file import DigestChain

JOINTS = BagTopic("/arm/joint_states", "sensor_msgs/msg/JointState")
SECOND_NS = 10**9
START_NS = 1_790_000_000 * SECOND_NS


def joint_state(size: int = 50_000) -> bytes:
    """Return a message of at least twice this size that no compression shrinks by more than half."""
    return serialize_message(JointState(name=[os.urandom(size).hex()]))


def record(path: Path, messages: int, limits: BagLimits, *, size: int = 50_000) -> BagWriter:
    with BagWriter(path, [JOINTS], contract="fps: 30", limits=limits) as bag:
        bag.add_record(NODE, {"node": "/arm/remote_inference"}, kept_for="/arm")
        for i in range(messages):
            bag.write(JOINTS.name, START_NS + i * SECOND_NS // 10, joint_state(size), sequence=i + 1)
    return bag


def records_of(file: Path) -> list[tuple[str, dict[str, str]]]:
    with file.open("rb") as data:
        return [(record.name, record.metadata) for record in make_reader(data).iter_metadata()]


def metadata_of(bag: Path) -> dict:
    return yaml.safe_load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]


def test_a_bag_goes_on_in_a_new_file_after_size_or_time(tmp_path: Path) -> None:
    record(tmp_path / "by_size", 40, BagLimits(max_split_bytes=10**6))
    record(tmp_path / "by_time", 40, BagLimits(max_split_duration_s=1.0), size=10)
    assert len(list((tmp_path / "by_size").glob("*.mcap"))) >= 2
    assert len(list((tmp_path / "by_time").glob("*.mcap"))) >= 3
    for bag in (tmp_path / "by_size", tmp_path / "by_time"):
        metadata = metadata_of(bag)
        names = [f"{bag.name}_{i}.mcap" for i in range(len(list(bag.glob("*.mcap"))))]
        assert metadata["relative_file_paths"] == [file["path"] for file in metadata["files"]] == names
        assert sum(file["message_count"] for file in metadata["files"]) == metadata["message_count"] == 40
        assert metadata["duration"]["nanoseconds"] == 39 * SECOND_NS // 10
        with BagReader(bag) as reader:
            stamps = [stamp_ns for _, stamp_ns, _ in reader.raw_messages()]
        assert stamps == [START_NS + i * SECOND_NS // 10 for i in range(40)]


def test_a_file_is_compressed_with_zstd_and_tells_its_type_s_hash(tmp_path: Path) -> None:
    record(tmp_path / "bag", 50, BagLimits(), size=5)
    with (tmp_path / "bag" / "bag_0.mcap").open("rb") as data:
        summary = make_reader(data).get_summary()
    assert summary
    assert {chunk.compression for chunk in summary.chunk_indexes} == {"zstd"}
    assert all(chunk.compressed_size < chunk.uncompressed_size for chunk in summary.chunk_indexes)
    (channel,) = summary.channels.values()
    topics = metadata_of(tmp_path / "bag")["topics_with_message_count"]
    assert channel.metadata["topic_type_hash"] == topics[0]["topic_metadata"]["type_description_hash"]


def test_every_file_stands_alone_and_names_the_digest_that_it_follows(tmp_path: Path) -> None:
    record(tmp_path / "bag", 40, BagLimits(max_split_bytes=10**6))
    files = sorted((tmp_path / "bag").glob("*.mcap"))
    last = bytes(32).hex()
    for number, file in enumerate(files):
        records = records_of(file)
        (head, *_), names = records, [name for name, _ in records]
        assert (head[0], head[1]["index"], head[1]["previous"]) == (SPLIT, str(number), last)
        assert dict(records)[RUN]["contract"] == "fps: 30"
        assert dict(records)[NODE] == {"node": "/arm/remote_inference"}
        assert (END in names) == (file == files[-1])
        assert names[-2:] == [LINK, "rosbag2"]
        last = dict(records)[LINK]["digest"]


def test_a_budget_costs_the_oldest_files_and_the_bag_says_which(tmp_path: Path) -> None:
    limits = BagLimits(max_split_bytes=2**20, max_bytes=5 * 2**20, when_full="drop_oldest")
    bag = record(tmp_path / "bag", 120, limits)
    files = sorted((tmp_path / "bag").glob("*.mcap"), key=lambda file: int(file.stem.split("_")[1]))
    assert sum(file.stat().st_size for file in files) <= limits.max_bytes
    assert bag.dropped == [f"bag_{i}.mcap" for i in range(len(bag.dropped))]
    assert files[0].name == f"bag_{len(bag.dropped)}.mcap"
    assert json.loads(dict(records_of(files[-1]))[DROPPED]["files"]) == bag.dropped
    with BagReader(tmp_path / "bag") as reader:
        assert reader.message_count == len(list(reader.raw_messages())) < 120
        assert reader.end_ns == START_NS + 119 * SECOND_NS // 10
        assert reader.contract == "fps: 30"


def test_a_budget_ends_a_bag_that_may_drop_nothing(tmp_path: Path) -> None:
    with pytest.raises(DiskBudgetError, match="bag: the bag has reached max_bytes, 4000000 bytes"):
        record(tmp_path / "bag", 120, BagLimits(max_split_bytes=2**20, max_bytes=4 * 10**6))
    assert 10**6 < sum(file.stat().st_size for file in (tmp_path / "bag").glob("*.mcap")) <= 4 * 10**6
    with BagReader(tmp_path / "bag") as reader:
        assert len(list(reader.messages())) > 0


def test_a_full_disk_costs_old_files_before_it_ends_the_bag(monkeypatch: pytest.MonkeyPatch) -> None:
    free = [500]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free[0]))

    def drop(sizes: list[int]) -> Callable[[], int]:
        def drop_oldest() -> int:
            freed = sizes.pop(0) if sizes else 0
            free[0] += freed
            return freed

        return drop_oldest

    limits = BagLimits(min_free_bytes=1000, when_full="drop_oldest")
    sizes = [400, 300, 200]
    make_room(Path("bag"), limits, 900, 50, drop(sizes))
    assert (sizes, free) == ([200], [1200])
    free[0] = 0
    with pytest.raises(DiskBudgetError, match="0 bytes would stay free on the disk, fewer than"):
        make_room(Path("bag"), limits, 200, 50, drop(sizes))


def test_the_free_space_floor_ends_a_bag_that_stays_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**6))
    with pytest.raises(DiskBudgetError, match="min_free_bytes, 1048576"):
        record(tmp_path / "bag", 40, BagLimits(min_free_bytes=2**20))
    with BagReader(tmp_path / "bag") as reader:
        assert len(list(reader.messages())) > 0


def test_links_chain_what_is_written_in_its_order() -> None:
    def links(*entries: tuple[int, bytes]) -> list[bytes]:
        chain = DigestChain()
        found = []
        for sequence, data in entries:
            chain.add_message(bytes(32), sequence, 1, 2, data)
            found.append(chain.link())
        return found

    whole = links((1, b"a"), (2, b"b"), (3, b"c"))
    assert links((1, b"a"), (2, b"b")) == whole[:2]
    assert links((1, b"a"), (2, b"B"), (3, b"c"))[0] == whole[0]
    assert not {*links((1, b"a"), (2, b"B"), (3, b"c"))[1:]} & {*whole}
    assert links((1, b"a"), (3, b"c"))[1] not in whole
    chain = DigestChain()
    chain.add_record("name", {"a": "1", "b": "2"})
    same, other = DigestChain(), DigestChain()
    same.add_record("name", {"b": "2", "a": "1"})
    other.add_record("name", {"b": "2", "a": "3"})
    assert chain.link() == same.link() != other.link()


def test_lost_messages_are_counted_by_their_publisher_s_numbers() -> None:
    losses = LostMessages()
    for sequence in (7, 8, 11, 12):
        losses.add("/a", sequence)
    for sequence in (5, 1, 2, 4):  # the publisher began anew
        losses.add("/b", sequence)
    for sequence in (0, 0):  # a middleware without numbers
        losses.add("/c", sequence)
    for sequence in (SEQUENCES - 1, 1):
        losses.add("/d", sequence)
    losses.set_publishers("/e", 2)
    for sequence in (5, 90, 6, 91):
        losses.add("/e", sequence)
    assert losses.before == {"/a": 2, "/b": 1, "/d": 1}
    assert losses.uncounted == {"/e"}


def test_a_clock_that_is_set_moves_no_stamp() -> None:
    wall, steady = [1_000 * SECOND_NS], [5 * SECOND_NS]
    clock = BagClock(lambda: wall[0], lambda: steady[0])
    assert clock.now_ns() == 1_000 * SECOND_NS
    assert not clock.find_jump()
    steady[0] += SECOND_NS
    wall[0] -= 99 * SECOND_NS
    assert clock.now_ns() == 1_001 * SECOND_NS
    assert clock.find_jump() == {"at_ns": str(1_001 * SECOND_NS), "jump_s": "-100.000", "ahead_s": "-100.000"}
    assert not clock.find_jump()


def test_a_failed_write_leaves_the_files_without_metadata(tmp_path: Path) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    def fill_the_disk() -> None:
        with BagWriter(tmp_path / "bag", [JOINTS]) as bag:
            bag.write(JOINTS.name, START_NS, joint_state())
            bag.tick = fail
            bag.write(JOINTS.name, START_NS, joint_state())

    with pytest.raises(OSError, match="No space left"):
        fill_the_disk()
    assert not (tmp_path / "bag" / "metadata.yaml").exists()


@pytest.mark.parametrize("when_full", ["stop", "drop_oldest"])
def test_a_budget_holds_where_records_come_more_often_than_chunks_end(
    tmp_path: Path, when_full: WhenFull
) -> None:
    """As of a topic that loses messages all the time."""
    limits = BagLimits(max_split_bytes=2**20, max_bytes=4 * 2**20, when_full=when_full)
    ended = False
    with BagWriter(tmp_path / "bag", [JOINTS], limits=limits) as bag:
        try:
            for number in range(200):
                bag.write(JOINTS.name, START_NS + number * SECOND_NS // 10, joint_state())
                bag.add_record(LOSSES, {"queue": str(number)}, kept_for="")
        except DiskBudgetError:
            ended = True
    assert ended == (when_full == "stop")
    assert len(list((tmp_path / "bag").glob("*.mcap"))) > 1
    assert sum(file.stat().st_size for file in (tmp_path / "bag").glob("*.mcap")) <= limits.max_bytes


def test_a_file_that_somebody_moved_away_ends_no_recording(tmp_path: Path) -> None:
    limits = BagLimits(max_split_bytes=2**20, max_bytes=5 * 2**20, when_full="drop_oldest")
    with BagWriter(tmp_path / "bag", [JOINTS], limits=limits) as bag:
        for number in range(120):
            bag.write(JOINTS.name, START_NS + number * SECOND_NS // 10, joint_state())
            if number == 60:
                (tmp_path / "bag" / "bag_1.mcap").unlink()
    assert "bag_1.mcap" in bag.dropped


def test_space_that_is_not_free_at_once_costs_no_more_files_than_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file that somebody reads is freed when it is closed."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=900))
    sizes = [400] * 20
    limits = BagLimits(min_free_bytes=1000, when_full="drop_oldest")
    make_room(Path("bag"), limits, 8000, 50, lambda: sizes.pop(0))
    assert len(sizes) == 19


def test_numbers_of_two_publishers_are_no_losses_however_late_the_second_is_known() -> None:
    losses = LostMessages()
    for sequence in (5, 9000, 6, 9001):
        losses.add("/a", sequence)
    losses.set_publishers("/a", 2)
    assert not losses.before
    losses.add("/a", 7)
    losses.set_publishers("/a", 2)
    assert (dict(losses.before), losses.uncounted) == ({}, {"/a"})


def test_losses_that_grow_are_told_fewer_and_fewer_times_and_those_of_another_topic_at_once() -> None:
    report, told = LossReport(), {}
    for half_second in range(100):
        cameras = {"/front": 3 + half_second} | ({"/top": 1} if half_second >= 9 else {})
        losses = {"queue": {}, "before": cameras, "uncounted": []}
        if lines := report.lines(losses, half_second / 2):
            told[half_second / 2] = lines
    why = "they did not reach the recorder"
    assert told == {
        0.0: [f"messages lost so far: 3 of /front: {why}"],
        1.0: [f"messages lost so far: 5 of /front: {why}"],
        4.5: [f"messages lost so far: 12 of /front, 1 of /top: {why}"],
        5.5: [f"messages lost so far: 14 of /front: {why}"],
        15.5: [f"messages lost so far: 34 of /front: {why}"],
    }


def test_losses_that_end_are_told_whole_and_both_causes_are() -> None:
    report = LossReport()
    lost = [{"queue": {"/a": 1}, "before": {"/b": 2}}, *[{"queue": {"/a": 7}, "before": {"/b": 2}}] * 6]
    lines = [report.lines(losses, number / 2) for number, losses in enumerate(lost)]
    assert [len(each) for each in lines] == [2, 0, 1, 0, 0, 0, 0]
    assert lines[2] == ["messages lost so far: 7 of /a: the queue is full, the disk is too slow"]
