# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's images are encoded once each, as they arrive; an invalid image is reported when it is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from rclpy.node import Node
from rig import write_contract
from sensor_msgs.msg import CompressedImage, Image, JointState

from remote_inference.core.contract import load_contract
from remote_inference.nodes.robot.sensor_hub import SensorHub, Snapshot
from remote_inference.wire import SensorError, decode_jpeg

IMAGE_TYPE = "sensor_msgs/msg/Image"
FRONT, TOP, WRIST = "images.front", "images.top", "images.wrist"


def make_hub(node: Node, folder: Path, **images: dict[str, object]) -> SensorHub:
    cameras = {name: {"topic": name, "type": IMAGE_TYPE, **changes} for name, changes in images.items()}
    return SensorHub(node, load_contract(write_contract(folder, images=cameras, rename={})), lambda: None)


def snapshot(**messages: Image) -> Snapshot:
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
    assert hub.snapshot() == first
    assert len(heard) == 1
    hub._deposit("wrist", stamped(90, sec=6))  # the camera's clock was set back
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


def joints(sec: int, **positions: float) -> JointState:
    message = JointState(name=list(positions), position=list(positions.values()))
    message.header.stamp.sec = sec
    return message


def test_a_message_of_some_joints_does_not_replace_that_of_all(
    node: Node, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two drivers on one topic: the gripper's own messages are ignored, and named once."""
    hub = SensorHub(node, load_contract(write_contract(tmp_path, images={}, rename={})), lambda: None)
    hub._deposit("joint_states", joints(1, elbow=0.2, shoulder=0.1))
    full = hub.snapshot()
    for sec in (2, 3):
        hub._deposit("joint_states", joints(sec, elbow=0.9))
    assert hub.snapshot() == full
    assert hub.read_state(hub.snapshot()) == pytest.approx([0.1, 0.2])
    hub._deposit("joint_states", joints(4, shoulder=0.3, gripper=0.0, elbow=0.4))
    assert hub.read_state(hub.snapshot()) == pytest.approx([0.3, 0.4])
    assert capfd.readouterr().err.count("joint_states: messages without shoulder are ignored") == 1


def test_a_topic_whose_messages_never_hold_all_joints_is_reported_when_it_is_read(
    node: Node, tmp_path: Path
) -> None:
    hub = SensorHub(node, load_contract(write_contract(tmp_path, images={}, rename={})), lambda: None)
    for sec in (1, 2):
        hub._deposit("joint_states", joints(sec, elbow=0.9))
    with pytest.raises(SensorError, match="found no shoulder among elbow"):
        hub.read_state(hub.snapshot())
