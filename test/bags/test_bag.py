# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bags round-trip the package's own messages and describe themselves as rosbag2 does."""

from __future__ import annotations

import array
import json
from pathlib import Path

import numpy as np
import pytest
from rclpy.serialization import deserialize_message, serialize_message
from rosbags.highlevel import AnyReader
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from sensor_msgs.msg import CompressedImage, Image

from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import BagError, BagTopic
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.bags.storage.message_decoder import message_definition
from remote_inference.base.paths import share_path
from remote_inference.msg import Observation

OWN_TYPES = ("Observation", "ActionChunk", "ClientState", "ExecutedAction", "ServerStatus")
OBSERVATION = BagTopic("/arm/remote_inference/observation", "remote_inference/msg/Observation")


def observation() -> Observation:
    message = Observation(session_id="s1", seq_id=2**40, episode_start=True, task="pick up the red cube")
    message.header.stamp.sec = 12
    message.state = array.array("f", [0.5, -1.5])
    message.images = [
        CompressedImage(format="jpeg", data=b"\xff\xd8abc"),
        CompressedImage(format="png", data=b""),
    ]
    message.images[0].header.frame_id = "wrist"
    message.raw_images = [Image(height=1, width=2, encoding="mono8", step=2, data=b"\x01\x02")]
    message.prefix_length = 1
    message.prefix_model = array.array("f", [1.0, 2.0])
    return message


def test_an_observation_with_nested_messages_round_trips(tmp_path: Path) -> None:
    cdr = serialize_message(observation())
    with BagWriter(tmp_path / "bag", [OBSERVATION]) as bag:
        bag.write(OBSERVATION.name, 1_000, cdr)
        bag.write(OBSERVATION.name, 2_000, cdr)
        assert bag.counts == {OBSERVATION.name: 2}
    with BagReader(tmp_path / "bag") as bag:
        assert (bag.message_count, bag.start_ns, bag.end_ns) == (2, 1_000, 2_000)
        assert [data for _, _, data in bag.raw_messages()] == [cdr, cdr]
        topic, stamp_ns, read = next(bag.messages([OBSERVATION.name]))
    assert (topic, stamp_ns) == (OBSERVATION.name, 1_000)
    assert (read.session_id, read.seq_id, read.episode_start, read.task) == (
        "s1", 2**40, True, "pick up the red cube",
    )  # fmt: skip
    assert read.header.stamp.sec == 12
    assert read.state.dtype == np.float32
    assert read.state.tolist() == [0.5, -1.5]
    assert [(i.format, i.data.tobytes()) for i in read.images] == [("jpeg", b"\xff\xd8abc"), ("png", b"")]
    assert read.images[0].header.frame_id == "wrist"
    assert (read.raw_images[0].width, read.raw_images[0].data.tolist()) == (2, [1, 2])
    assert read.prefix_model.tolist() == [1.0, 2.0]
    assert deserialize_message(cdr, Observation).seq_id == read.seq_id


@pytest.mark.parametrize("name", OWN_TYPES)
def test_type_hashes_agree_with_rosidl(name: str, tmp_path: Path) -> None:
    """`ros2 bag play` and rmw_zenoh's keys both use the hash."""
    msgtype = f"remote_inference/msg/{name}"
    with BagWriter(tmp_path / "bag", [BagTopic("/topic", msgtype)]):
        pass
    generated = json.loads((share_path("msg", f"{name}.json")).read_text())
    expected = {entry["type_name"]: entry["hash_string"] for entry in generated["type_hashes"]}
    with AnyReader([tmp_path / "bag"]) as reader:
        assert reader.connections[0].digest == expected[msgtype]


def test_definitions_keep_their_comments_and_nested_messages() -> None:
    text = message_definition("remote_inference/msg/Observation")
    assert text.startswith((share_path("msg", "Observation.msg")).read_text())
    for nested in (
        "std_msgs/Header",
        "sensor_msgs/CompressedImage",
        "sensor_msgs/Image",
        "builtin_interfaces/Time",
    ):
        assert text.count(f"{'=' * 80}\nMSG: {nested}\n") == 1


def test_offered_qos_is_recorded(tmp_path: Path) -> None:
    latched = Qos(
        QosHistory.KEEP_LAST, 1, QosReliability.RELIABLE, QosDurability.TRANSIENT_LOCAL, QosTime(0, 0),
        QosTime(0, 0), QosLiveliness.AUTOMATIC, QosTime(0, 0), False,
    )  # fmt: skip
    topic = BagTopic("/arm/remote_inference/state", "remote_inference/msg/ClientState", (latched,))
    with BagWriter(tmp_path / "bag", [topic]):
        pass
    assert "durability: transient_local" in (tmp_path / "bag" / "metadata.yaml").read_text()
    with BagReader(tmp_path / "bag") as bag:
        assert bag.topics == {topic.name: topic}
        assert list(bag.messages()) == []


def test_a_bag_carries_a_contract(tmp_path: Path) -> None:
    text = "# not rad: 'm' \u00b5\nrobot_type: arm\n"
    with BagWriter(tmp_path / "bag", [OBSERVATION], contract=text):
        pass
    with BagWriter(tmp_path / "without", [OBSERVATION]):
        pass
    with BagReader(tmp_path / "bag") as bag, BagReader(tmp_path / "without") as without:
        assert (bag.contract, without.contract) == (text, "")


def test_a_bag_is_finished_when_its_writer_fails(tmp_path: Path) -> None:
    def record() -> None:
        with BagWriter(tmp_path / "bag", [OBSERVATION]) as bag:
            bag.write(OBSERVATION.name, 5, serialize_message(observation()))
            bag.write("/other", 6, b"")

    with pytest.raises(BagError, match="topic /other is not declared"):
        record()
    with BagReader(tmp_path / "bag") as bag:
        assert bag.message_count == 1


def test_writing_refuses_types_that_it_cannot_describe(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(BagError, match="there: exists already"):
        BagWriter(tmp_path / "there")
    with BagWriter(tmp_path / "bag", [OBSERVATION]) as bag:
        with pytest.raises(BagError, match="observation is declared already"):
            bag.add_topic(OBSERVATION)
        with pytest.raises(BagError, match=r"no definition is installed .*remote_inference/msg/Nothing\.msg"):
            bag.add_topic(BagTopic("/x", "remote_inference/msg/Nothing"))
        with pytest.raises(BagError, match="expected the form 'package/msg/Name'"):
            bag.add_topic(BagTopic("/x", "Observation"))


def test_reading_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BagError, match="nowhere: no bag there"):
        BagReader(tmp_path / "nowhere")
    unfinished = BagWriter(tmp_path / "unfinished")
    with pytest.raises(
        BagError, match=r"no metadata\.yaml: .* recorder was killed; `remote-inference verify "
    ):
        BagReader(tmp_path / "unfinished")
    unfinished.close()
    with BagWriter(tmp_path / "bag", [OBSERVATION]) as bag:
        bag.write(OBSERVATION.name, 1, b"\x00\x01\x00\x00\x01")
    with BagReader(tmp_path / "bag") as bag:
        with pytest.raises(BagError, match=f"topic /other is not in the bag, which holds {OBSERVATION.name}"):
            next(bag.messages(["/other"]))
        with pytest.raises(BagError, match="observation at 1 ns"):
            next(bag.messages())


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    with BagWriter(tmp_path / "bag", [OBSERVATION], contract="fps: 30") as bag:
        bag.write(OBSERVATION.name, 1, serialize_message(Observation()))
    return tmp_path / "bag"


@pytest.mark.parametrize("data", [b"", b"\x89MCAP0\r\n" + b"\xff" * 40])
def test_a_damaged_bag_is_named(whole: Path, data: bytes) -> None:
    next(whole.glob("*.mcap")).write_bytes(data)
    with pytest.raises(BagError, match=f"^{whole}: "), BagReader(whole) as bag:
        list(bag.messages())


@pytest.mark.parametrize("data", [b"", b"\xff", b"[" * 5000, b"rosbag2_bagfile_information: 7"])
def test_where_metadata_are_damaged_the_files_say_what_they_hold(whole: Path, data: bytes) -> None:
    (whole / "metadata.yaml").write_bytes(data)
    with BagReader(whole) as bag:
        assert len(list(bag.messages())) == 1
        assert bag.contract == "fps: 30"
        assert ["read from the files themselves" in remark for remark in bag.remarks] == [True]
