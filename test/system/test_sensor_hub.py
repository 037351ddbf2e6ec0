# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's images are encoded once each, as they arrive; an invalid image is reported when it is read."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, WrenchStamped
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Float32MultiArray

from remote_inference.base.contract.contract import load_contract
from remote_inference.base.wire.arrays import SensorError
from remote_inference.base.wire.images.encodings.jpeg import decode_jpeg
from remote_inference.robot.nodes import sensor_hub
from remote_inference.robot.nodes.sensor_hub import SensorHub, Snapshot
from remote_inference.robot.queue.observation_history import TickSample
from support.nodes.rig import CONTRACT, JOINTS, write_contract
from support.robot.pose_robot import POSE, pose_command, pose_section, pose_state

IMAGE_TYPE = "sensor_msgs/msg/Image"
FRONT, TOP, WRIST = "images.front", "images.top", "images.wrist"


def make_hub(node: Node, folder: Path, **images: dict[str, object]) -> SensorHub:
    cameras = {name: {"topic": name, "type": IMAGE_TYPE, **changes} for name, changes in images.items()}
    return SensorHub(node, load_contract(write_contract(folder, images=cameras, rename={})), lambda: None)


def snapshot(**messages: Image | JointState) -> Snapshot:
    return Snapshot(messages, dict.fromkeys(messages, 0))


def image(grey: int, encoding: str = "rgb8") -> Image:
    return Image(height=8, width=8, encoding=encoding, step=24, data=bytes([grey]) * 192)


def greys_of(images: list[CompressedImage | Image]) -> object:
    """Return the images' grey levels; `==` allows for JPEG's loss."""
    return pytest.approx([decode_jpeg(image.data).mean() for image in images], abs=3.0)


def test_images_are_read_in_the_contracts_order(node: Node, tmp_path: Path) -> None:
    hub = make_hub(node, tmp_path, front={}, top={}, wrist={})
    seen = snapshot(wrist=image(20), front=image(100), top=image(200))
    (images,) = hub.read_images([seen], [FRONT, TOP, WRIST])
    assert greys_of(images) == [100, 200, 20]


def test_a_set_has_each_message_of_the_snapshot_that_held_it() -> None:
    older, newer = snapshot(front=image(20), joints=JointState()), snapshot(front=image(100), top=image(200))
    arrivals = {"joints": 1, "front": 1, "top": 2}
    sample = TickSample({"joints": older, "front": older, "top": newer}, arrivals)
    assert Snapshot.of(sample).messages == {
        "joints": older.messages["joints"],
        "front": older.messages["front"],
        "top": newer.messages["top"],
    }
    assert Snapshot.of(sample).arrivals == arrivals
    assert Snapshot.of(TickSample(newer, arrivals)) is newer


def test_looks_at_fast_sensors_are_thinned(node: Node, tmp_path: Path) -> None:
    hub = make_hub(node, tmp_path, front={})
    hub.with_looks([], keep=True)
    for at_us in range(0, 20_000, 100):
        hub._keep("front", (image(20), 10**9 + 1_000 * at_us))
    assert len(hub.with_looks([], keep=True)) == 20 * 10**6 // sensor_hub.LOOK_GAP_NS


def test_ticks_and_looks_come_in_the_order_of_the_arrivals_where_a_driver_lags(
    node: Node, tmp_path: Path
) -> None:
    hub = make_hub(node, tmp_path, front={})
    hub.with_looks([], keep=True)
    tick = TickSample(hub.snapshot(), {"joints": 90, "front": 98}, tick_ns=1)
    hub._looks.append(TickSample(hub.snapshot(), {"joints": 95, "front": 98}))
    assert [sample.tick_ns for sample in hub.with_looks([tick], keep=True)] == [1, None]


def test_what_came_between_two_ticks_is_kept_where_sources_have_to_fit_together(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensor_hub, "LOOK_GAP_NS", 0)
    hub = make_hub(node, tmp_path, front={})
    tick = TickSample(hub.snapshot(), {"front": 0}, tick_ns=1)
    hub._deposit("front", image(20))
    assert hub.with_looks([tick], keep=True) == [tick], "nothing is kept before it is wanted"
    hub._deposit("front", image(100))
    hub._deposit("front", image(200))
    *looks, present = hub.with_looks([replace(tick, arrivals=hub.snapshot().arrivals)], keep=False)
    assert [look.content.messages["front"].data[0] for look in looks] == [100, 200]
    assert [look.tick_ns for look in looks] == [None, None]
    assert present.tick_ns == 1, "after what came before it"
    assert hub.with_looks([], keep=False) == []


def test_an_image_that_arrives_early_is_encoded_once(node: Node, tmp_path: Path) -> None:
    hub = make_hub(node, tmp_path, front={}, wrist={})
    wrist, front = image(20), image(100)
    hub.prepare_images([snapshot(wrist=wrist)], [FRONT, WRIST])
    hub.prepare_images([snapshot(wrist=wrist, front=front)], [FRONT, WRIST])
    first = hub.read_images([snapshot(wrist=wrist, front=front)], [FRONT, WRIST])[0]
    again = hub.read_images([snapshot(wrist=wrist, front=front)], [FRONT, WRIST])[0]
    assert greys_of(first) == [100, 20]
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_an_image_is_encoded_once_for_all_requests_whose_steps_show_it(node: Node, tmp_path: Path) -> None:
    hub = make_hub(node, tmp_path, wrist={})
    steps = [snapshot(wrist=image(grey)) for grey in (20, 100, 200)]
    steps.append(steps[-1])  # the camera delivered nothing new in the last tick
    first = [images[0] for images in hub.read_images(steps[:3], [WRIST])]
    second = [images[0] for images in hub.read_images(steps[1:], [WRIST])]
    assert greys_of(second) == [100, 200, 200]
    assert second[0] is first[1]
    assert second[1] is second[2] is first[2]


@pytest.mark.parametrize("quality", [90, 0], ids=["encoded", "raw"])
def test_images_of_steps_that_no_request_shows_any_more_are_not_kept(
    node: Node, tmp_path: Path, quality: int
) -> None:
    hub = make_hub(node, tmp_path, wrist={"jpeg_quality": quality})
    steps = [snapshot(wrist=image(grey)) for grey in range(50)]
    for last in range(3, 51):
        hub.read_images(steps[last - 3 : last], [WRIST])
    assert len(hub._cameras[WRIST]._images) == 3


def test_a_camera_that_is_not_asked_for_is_neither_encoded_nor_read(node: Node, tmp_path: Path) -> None:
    """It may be silent, and its images may be unreadable."""
    hub = make_hub(node, tmp_path, front={}, top={}, wrist={})
    seen = snapshot(wrist=image(20), top=image(20, "yuv422"))
    hub.prepare_images([seen], [WRIST])
    assert greys_of(hub.read_images([seen], [WRIST])[0]) == [20]
    assert hub.read_images([seen], []) == [[]]
    sizes = [(feature.height, feature.width) for feature in hub.add_sizes(hub._contract.image_features)]
    assert sizes == [(0, 0), (0, 0), (8, 8)]


def test_the_newest_image_is_sent_whatever_was_prepared(node: Node, tmp_path: Path) -> None:
    hub = make_hub(node, tmp_path, wrist={})
    for grey in range(50):
        hub.prepare_images([snapshot(wrist=image(grey))], [WRIST])
    assert greys_of(hub.read_images([snapshot(wrist=image(200))], [WRIST])[0]) == [200]


def test_an_image_that_cannot_be_read_is_reported_when_it_is_wanted(node: Node, tmp_path: Path) -> None:
    hub = make_hub(node, tmp_path, wrist={})
    broken = snapshot(wrist=image(20, "yuv422"))
    hub.prepare_images([broken], [WRIST])
    for _ in range(2):
        with pytest.raises(SensorError, match=r"wrist .*encoding: found 'yuv422'"):
            hub.read_images([broken], [WRIST])
    assert greys_of(hub.read_images([snapshot(wrist=image(20))], [WRIST])[0]) == [20]


def test_the_policy_gets_its_units_and_the_guard_the_robots(node: Node, tmp_path: Path) -> None:
    scale = [{"unit": "degrees", "names": [JOINTS[0]]}]
    state = [{**CONTRACT["state"][0], "scale": scale}]
    hub = SensorHub(node, load_contract(write_contract(tmp_path, state=state)), lambda: None)
    seen = snapshot(joint_states=JointState(name=list(JOINTS), position=[math.pi / 2, 0.5]))
    state_sent, measured = hub.read_state(seen), hub.measured_positions(seen)
    assert state_sent.dtype == np.float32
    assert state_sent.tolist() == [90.0, 0.5]
    assert measured is not None
    assert measured.tolist() == [math.pi / 2, 0.5]


def test_raw_images_are_passed_on(node: Node, tmp_path: Path) -> None:
    hub = make_hub(node, tmp_path, wrist={"jpeg_quality": 0})
    wrist = image(20)
    hub.prepare_images([snapshot(wrist=wrist)], [WRIST])
    assert hub.read_images([snapshot(wrist=wrist)], [WRIST])[0][0] is wrist


def stamped(grey: int, sec: int) -> Image:
    message = image(grey)
    message.header.stamp.sec = sec
    return message


def test_a_message_that_repeats_the_last_stamp_is_not_new(node: Node, tmp_path: Path) -> None:
    """A hung driver keeps publishing: the hub takes neither its image nor its time of arrival."""
    heard: list[None] = []
    hub = make_hub(node, tmp_path, wrist={})
    hub._notify = lambda: heard.append(None)
    hub._deposit("wrist", stamped(20, sec=7))
    first = hub.snapshot()
    hub._deposit("wrist", stamped(90, sec=7))
    hub._deposit("wrist", stamped(90, sec=6))  # it comes late, behind a newer one
    assert hub.snapshot() == first
    assert len(heard) == 1
    hub._deposit("wrist", stamped(90, sec=8))
    assert hub.snapshot().arrivals["wrist"] > first.arrivals["wrist"]


def test_a_driver_without_stamps_is_judged_by_the_arrival_of_its_messages(node: Node, tmp_path: Path) -> None:
    hub = make_hub(node, tmp_path, wrist={})
    hub._deposit("wrist", stamped(20, sec=0))
    first = hub.snapshot()
    hub._deposit("wrist", stamped(20, sec=0))
    assert hub.snapshot().arrivals["wrist"] > first.arrivals["wrist"]


def test_measured_positions_follow_the_order_of_the_actions(node: Node, tmp_path: Path) -> None:
    """From the state, or from the contract's `measured` where the state has other names."""
    joints = JointState(name=["j2", "elbow", "shoulder", "j1"], position=[0.2, 0.6, 0.5, 0.1])
    seen = Snapshot({"joint_states": joints}, {"joint_states": 0})
    source = {"topic": "joint_states", "type": "sensor_msgs/msg/JointState", "field": "position"}
    by_state = load_contract(write_contract(tmp_path, images={}, rename={}))
    measured = {**source, "names": ["j1", "j2"]}
    by_name = load_contract(write_contract(tmp_path, images={}, rename={}, measured=measured))
    found = [
        SensorHub(node, contract, lambda: None).measured_positions(seen) for contract in (by_state, by_name)
    ]
    assert found[0] == pytest.approx([0.5, 0.6])
    assert found[1] == pytest.approx([0.1, 0.2])


def test_joints_and_a_pose_are_measured_by_sources_of_their_own(node: Node, tmp_path: Path) -> None:
    names = [*POSE, *JOINTS]
    document = {
        **CONTRACT,
        "actions": {**CONTRACT["actions"], "names": names, "poses": {"tool": pose_section()}},
        "commands": [pose_command(), *CONTRACT["commands"]],
        "measured": [
            pose_state("tool_pose", POSE),
            {
                "topic": "drives",
                "type": "sensor_msgs/msg/JointState",
                "field": "position",
                "names": ["a", "b"],
            },
        ],
    }
    hub = SensorHub(node, load_contract(write_contract(tmp_path, **document)), lambda: None)
    tool = PoseStamped()
    tool.pose.position.z, tool.pose.orientation.w = 0.5, -1.0
    drives = JointState(name=["b", "a"], position=[0.2, 0.1])
    assert hub.measured_positions(snapshot(drives=drives)) is None, "nobody knows where the tool is"
    measured = hub.measured_positions(snapshot(drives=drives, tool_pose=tool))
    assert measured == pytest.approx([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, -1.0, 0.1, 0.2])
    tool.pose.orientation.x = math.nan
    assert hub.measured_positions(snapshot(drives=drives, tool_pose=tool)) is None


def joints(sec: int, **positions: float) -> JointState:
    message = JointState(name=list(positions), position=list(positions.values()))
    message.header.stamp.sec = sec
    return message


def arrived(hub: SensorHub, *messages: JointState) -> None:
    for message in messages:
        hub._deposit_joints("joint_states", message)


@pytest.fixture
def hub(node: Node, tmp_path: Path) -> SensorHub:
    return SensorHub(node, load_contract(write_contract(tmp_path, images={}, rename={})), lambda: None)


def test_the_joints_of_two_drivers_on_one_topic_are_merged(hub: SensorHub) -> None:
    arrived(hub, joints(1, elbow=0.2), joints(1, shoulder=0.1))
    assert hub.read_state(hub.snapshot()) == pytest.approx([0.1, 0.2])
    arrived(hub, joints(2, elbow=0.9, gripper=0.0))
    assert hub.read_state(hub.snapshot()) == pytest.approx([0.1, 0.9])
    arrived(hub, joints(3, shoulder=0.3, elbow=0.4))
    assert hub.read_state(hub.snapshot()) == pytest.approx([0.3, 0.4])


def test_the_age_of_a_topic_is_that_of_its_oldest_joint(hub: SensorHub) -> None:
    arrived(hub, joints(1, elbow=0.2), joints(1, shoulder=0.1))
    arrived(hub, joints(2, elbow=0.3))
    seen = hub.snapshot().arrivals["joint_states"]
    arrived(hub, joints(3, elbow=0.4), joints(4, elbow=0.5))  # the shoulder's driver is silent
    assert hub.snapshot().arrivals["joint_states"] == seen
    arrived(hub, joints(2, shoulder=0.2))
    assert hub.snapshot().arrivals["joint_states"] > seen


def test_a_driver_that_repeats_its_stamp_does_not_make_its_joints_younger(hub: SensorHub) -> None:
    arrived(hub, joints(1, elbow=0.2), joints(1, shoulder=0.1), joints(2, elbow=0.3))
    seen = hub.snapshot().arrivals["joint_states"]
    arrived(hub, joints(1, shoulder=0.7), joints(3, elbow=0.4))
    assert hub.read_state(hub.snapshot()) == pytest.approx([0.1, 0.4])
    assert hub.snapshot().arrivals["joint_states"] == seen


def test_nothing_is_known_until_every_joint_was_seen_and_the_missing_are_named(hub: SensorHub) -> None:
    assert hub.lacks == {}, "nothing has arrived"
    arrived(hub, *(joints(sec, gripper=0.0, elbow=0.9) for sec in (1, 2, 3)))
    assert hub.snapshot().messages == {}
    assert hub.lacks == {"joint_states": "no message so far has shoulder, found elbow, gripper"}
    arrived(hub, joints(1, shoulder=0.1))
    assert hub.read_state(hub.snapshot()) == pytest.approx([0.1, 0.9])
    assert hub.lacks == {}


def test_a_driver_without_what_the_contract_picks_is_named(hub: SensorHub) -> None:
    arrived(hub, joints(1, elbow=0.2), JointState(name=["shoulder"], velocity=[0.1]))
    assert hub.snapshot().messages == {}
    assert hub.lacks == {"joint_states": "no message so far has shoulder, found elbow, shoulder"}


PAD = {"topic": "pad", "type": "std_msgs/msg/Float32MultiArray", "fields": ["data[0:2]"], "names": ["pad"]}
WRENCH = {
    "topic": "wrench",
    "type": "geometry_msgs/msg/WrenchStamped",
    "fields": ["wrench.force.z"],
    "scale": [{"unit": "mN", "factor": 1000.0, "names": ["wrench.force.z"]}],
}


@pytest.fixture
def hub_of_all(node: Node, tmp_path: Path) -> SensorHub:
    """Of a robot that feels: its state is a pad, its joints, and a force."""
    state = [PAD, *CONTRACT["state"], WRENCH]
    contract = load_contract(write_contract(tmp_path, images={}, rename={}, state=state))
    return SensorHub(node, contract, lambda: None)


def force(sec: int, newton: float) -> WrenchStamped:
    message = WrenchStamped()
    message.header.stamp.sec, message.wrench.force.z = sec, newton
    return message


def test_the_state_is_read_from_every_source_in_order_and_in_the_policys_units(hub_of_all: SensorHub) -> None:
    arrived(hub_of_all, joints(1, elbow=0.2, shoulder=0.1))
    hub_of_all._deposit("wrench", force(1, 0.25))
    hub_of_all._deposit("pad", Float32MultiArray(data=[3.0, 4.0, 5.0]))
    assert hub_of_all.read_state(hub_of_all.snapshot()) == pytest.approx([3.0, 4.0, 0.1, 0.2, 250.0])


def test_joints_are_measured_before_any_other_sensor_has_spoken(hub_of_all: SensorHub) -> None:
    arrived(hub_of_all, joints(1, elbow=0.2, shoulder=0.1))
    hub_of_all._deposit("pad", Float32MultiArray())
    assert hub_of_all.measured_positions(hub_of_all.snapshot()) == pytest.approx([0.1, 0.2])


def test_a_repeated_stamp_is_known_of_any_type_with_a_header(hub_of_all: SensorHub) -> None:
    hub_of_all._deposit("wrench", force(7, 0.25))
    first = hub_of_all.snapshot()
    hub_of_all._deposit("wrench", force(7, 0.5))
    assert hub_of_all.snapshot() == first
    hub_of_all._deposit("wrench", force(8, 0.5))
    assert hub_of_all.snapshot().arrivals["wrench"] > first.arrivals["wrench"]


def test_a_message_without_a_header_is_new_at_each_arrival(hub_of_all: SensorHub) -> None:
    hub_of_all._deposit("pad", Float32MultiArray(data=[1.0, 2.0]))
    first = hub_of_all.snapshot()
    hub_of_all._deposit("pad", Float32MultiArray(data=[1.0, 2.0]))
    assert hub_of_all.snapshot().arrivals["pad"] > first.arrivals["pad"]
