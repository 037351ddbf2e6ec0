# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A contract begun from a running robot: what is known is written, the rest is marked."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from remote_inference.base.contract.commands.controller_facts import facts_of
from remote_inference.base.contract.contract import parse_contract
from remote_inference.base.contract.generated import GeneratedContract
from remote_inference.base.contract.image_source import COMPRESSED_IMAGE, IMAGE
from remote_inference.base.documents.document import FILL_IN, DocumentError, mark
from remote_inference.tools.contracts.running_robot import (
    CommandTopic,
    ImageTopic,
    JointTopic,
    OtherTopic,
    RobotView,
    suggest,
)
from remote_inference.tools.contracts.urdf import parse_urdf
from support.builders import FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY

URDF = parse_urdf(
    """<robot name="picker">
    <joint name="arm" type="revolute"><limit lower="-1" upper="2" velocity="3" effort="10"/></joint>
    <joint name="roll" type="continuous"><limit velocity="4" effort="0"/></joint>
    <joint name="finger" type="prismatic"><limit lower="0" upper="0.04" velocity="0.2" effort="5"/></joint>
    <joint name="other_finger" type="prismatic"><mimic joint="finger"/></joint>
    <joint name="odd" type="revolute"><limit lower="0" upper="0" velocity="0"/></joint>
    </robot>""",
    "picker.urdf",
)
JOINTS = JointTopic("joint_states", ("arm", "roll", "finger", "other_finger"), 100.0)
ARM = CommandTopic("arm_controller/joint_trajectory", JOINT_TRAJECTORY, ("arm", "roll"), "position")
GRIPPER = CommandTopic("gripper_controller/commands", FLOAT64_MULTI_ARRAY, ("finger",), "position")
VIEW = RobotView([JOINTS], [], [ARM, GRIPPER], URDF)


def places(generated: GeneratedContract) -> list[str]:
    return [line.partition(": ")[0] for line in generated.marks]


def fill_in(content: Any, values: dict[str, Any], place: str = "") -> Any:
    """Return the content with a value at each marked place, and nothing else changed."""
    if isinstance(content, str) and content.startswith(FILL_IN):
        return values[place]
    if isinstance(content, dict):
        return {key: fill_in(item, values, f"{place}.{key}".lstrip(".")) for key, item in content.items()}
    if isinstance(content, list):
        return [fill_in(item, values, f"{place}.{index}") for index, item in enumerate(content)]
    return content


def test_a_robot_that_says_everything_leaves_only_the_rate_and_the_endless_joint():
    generated = suggest(VIEW)
    assert places(generated) == ["fps", "actions.limits.roll.min", "actions.limits.roll.max"]
    assert "continuous joint" in generated.marks[1]
    assert generated.content["robot_type"] == "picker"
    assert generated.content["actions"]["limits"]["arm"] == {"min": -1.0, "max": 2.0, "max_velocity": 3.0}
    assert generated.content["actions"]["limits"]["finger"]["unit"] == "m"


@pytest.mark.parametrize(("kind", "said"), [("position", "off"), ("velocity", None), ("effort", None)])
def test_a_gripper_may_stay_behind_its_position_commands(kind: str, said: str | None):
    limits = suggest(VIEW, kind).content["actions"]["limits"]
    assert limits["finger"].get("max_following_error") == said
    assert "max_following_error" not in limits["arm"]


def test_it_loads_after_its_marks_are_filled_in_and_not_before():
    generated = suggest(VIEW)
    with pytest.raises(DocumentError) as caught:
        parse_contract(generated.to_yaml(), "generated")
    assert str(caught.value).splitlines() == [f"generated: {line}" for line in generated.marks]
    values = {"fps": 30.0, "actions.limits.roll.min": -6.0, "actions.limits.roll.max": 6.0}
    filled = fill_in(yaml.safe_load(generated.to_yaml()), values)
    contract = parse_contract(yaml.safe_dump(filled), "filled")
    assert contract.actions.names == ("arm", "roll", "finger")
    assert contract.actions.kind == "position"


def test_a_joint_that_follows_another_is_left_out_and_named():
    generated = suggest(VIEW)
    assert generated.content["state"][0]["names"] == ["arm", "roll", "finger"]
    assert any("other_finger" in note for note in generated.notes)


@pytest.mark.parametrize(
    ("joint", "kind", "marked"),
    [
        ("arm", "velocity", []),
        ("arm", "effort", ["max_velocity"]),
        ("roll", "velocity", []),
        ("roll", "effort", ["min", "max", "max_velocity"]),
        ("odd", "position", ["min", "max", "max_velocity"]),
        ("unheard_of", "position", ["min", "max", "max_velocity"]),
        ("finger", "", ["min", "max", "max_velocity", "unit"]),
    ],
)
def test_a_limit_that_the_urdf_does_not_give_is_marked(joint: str, kind: str, marked: list[str]):
    command = CommandTopic("commands", FLOAT64_MULTI_ARRAY, (joint,), kind)
    generated = suggest(RobotView([JointTopic("joint_states", (joint,), 50.0)], [], [command], URDF))
    prefix = f"actions.limits.{joint}."
    assert [place.removeprefix(prefix) for place in places(generated) if place.startswith(prefix)] == marked


def test_velocities_and_efforts_are_as_large_both_ways():
    command = CommandTopic("commands", FLOAT64_MULTI_ARRAY, ("arm",), "velocity")
    generated = suggest(RobotView([JointTopic("joint_states", ("arm",), 50.0)], [], [command], URDF))
    assert generated.content["actions"]["limits"]["arm"] == {"min": -3.0, "max": 3.0, "max_velocity": 3.0}


def test_a_person_s_word_on_the_kind_goes_before_the_controllers():
    silent = CommandTopic("commands", FLOAT64_MULTI_ARRAY, ("arm",))
    view = RobotView([JointTopic("joint_states", ("arm",), 50.0)], [], [silent], URDF)
    assert "actions.kind" in places(suggest(view))
    assert suggest(view, "effort").content["actions"]["kind"] == "effort"


PARAMETERS = {
    "joints": ["arm", "roll"],
    "joint_limits.arm.has_velocity_limits": True,
    "joint_limits.arm.max_velocity": 1.5,
    "joint_limits.arm.has_acceleration_limits": True,
    "joint_limits.arm.max_acceleration": 6.0,
    "joint_limits.arm.has_jerk_limits": True,
    "joint_limits.arm.max_jerk": 60.0,
    "joint_limits.roll.has_acceleration_limits": False,
    "joint_limits.roll.max_acceleration": float("nan"),
}


def test_joint_limits_that_a_controller_keeps_are_the_contract_s():
    said = {"/arm_controller": facts_of("/arm_controller", PARAMETERS).joint_limits}
    generated = suggest(replace(VIEW, joint_limits=said))
    limits = generated.content["actions"]["limits"]
    assert limits["arm"] == {
        "min": -1.0,
        "max": 2.0,
        "max_velocity": 1.5,
        "max_acceleration": 6.0,
        "max_jerk": 60.0,
    }
    assert "max_acceleration" not in limits["roll"]
    text = generated.to_yaml()
    assert "# max_acceleration of arm: /arm_controller says 6, which is the smaller" in text
    assert "# max_jerk needs ruckig" in text


def test_without_a_urdf_joint_limits_are_left_out_as_a_comment_says():
    entry = {"has_acceleration_limits": True, "max_acceleration": 6.0}
    generated = suggest(replace(VIEW, urdf=None, joint_limits={"limits.yaml": {"arm": entry}}))
    assert "max_acceleration" not in generated.content["actions"]["limits"]["arm"]
    assert any(note.startswith("limits.yaml: joint_limits left out, no URDF") for note in generated.notes)
    assert not any("ruckig" in note for note in generated.notes)


def test_a_controller_that_does_not_name_its_joints_is_marked():
    generated = suggest(
        RobotView([JOINTS], [], [CommandTopic("commands", FLOAT64_MULTI_ARRAY)], URDF), "position"
    )
    assert {"actions.names", "commands.0.names"} < set(places(generated))
    assert "joints that were received: arm, roll, finger" in "".join(generated.marks)


def test_two_controllers_of_one_joint_are_a_choice():
    rival = CommandTopic("position_controller/commands", FLOAT64_MULTI_ARRAY, ("arm",), "position")
    generated = suggest(RobotView([JOINTS], [], [ARM, rival], URDF))
    assert "commands.1.names" in places(generated)
    assert "delete this entry or arm_controller/joint_trajectory" in "".join(generated.marks)


def test_a_joint_is_read_from_one_topic():
    small = JointTopic("gripper/joint_states", ("finger", "thumb"), 10.0)
    generated = suggest(RobotView([small, JOINTS], [], [], None))
    assert [source["names"] for source in generated.content["state"]] == [list(JOINTS.names), ["thumb"]]


def test_commands_that_are_joint_states_are_not_taken_for_measurements():
    commands = JointTopic("joint_commands", JOINTS.names, 30.0)
    generated = suggest(RobotView([commands, JOINTS], [], [], None))
    assert [source["topic"] for source in generated.content["state"]] == ["joint_states"]
    assert "joint_commands: left out, it has no joint of its own" in generated.notes


INACTIVE = CommandTopic(
    "forward_controller/commands", FLOAT64_MULTI_ARRAY, ("arm", "roll"), "velocity", "/forward is inactive"
)


def test_an_active_controller_goes_before_an_inactive_one_which_is_named_as_a_comment():
    generated = suggest(RobotView([JOINTS], [], [INACTIVE, ARM], URDF))
    assert [command["topic"] for command in generated.content["commands"]] == [ARM.topic]
    assert generated.content["actions"]["kind"] == "position"
    (left_out,) = generated.left_out
    assert left_out.entry[0]["topic"] == INACTIVE.topic
    assert left_out.why.startswith("controller /forward is inactive")


@pytest.mark.parametrize("others", [[], [GRIPPER]])
def test_an_inactive_controller_is_taken_where_no_active_one_has_its_joints(others: list[CommandTopic]):
    generated = suggest(RobotView([JOINTS], [], [INACTIVE, *others], URDF))
    assert INACTIVE.topic in [command["topic"] for command in generated.content["commands"]]
    assert not generated.left_out
    assert any("/forward is inactive, activate it" in note for note in generated.notes)


def test_an_inactive_controller_is_left_out_where_an_active_one_does_not_say_its_joints():
    silent = CommandTopic("commands", FLOAT64_MULTI_ARRAY)
    generated = suggest(RobotView([JOINTS], [], [silent, INACTIVE], URDF))
    assert [command["topic"] for command in generated.content["commands"]] == ["commands"]


STOPS_WHEN = mark("true or false: what stops the robot")
TWIST, IMU = "geometry_msgs/msg/TwistStamped", "sensor_msgs/msg/Imu"
NOT_INSTALLED = "message type 'nav_msgs/msg/Odometry' is not installed"
OTHERS = (
    OtherTopic("cmd_vel", TWIST, is_taken=True, numbers=("header.stamp.sec", "twist.linear.x")),
    OtherTopic(
        "gripper/command", "std_msgs/msg/Float64", True, True, ("data",)
    ),  # a person's node sends, too
    OtherTopic("grip", "control_msgs/action/GripperCommand", is_taken=True, numbers=("command.position",)),
    OtherTopic("imu", IMU, True, True, ("orientation.x", "orientation_covariance[0]")),  # and one filters it
    OtherTopic("odom", "nav_msgs/msg/Odometry", True, remedy=NOT_INSTALLED),
    OtherTopic("say", "std_msgs/msg/String", True),
    OtherTopic("estop", "std_msgs/msg/Bool", True, numbers=("data",)),
    OtherTopic("tf", "tf2_msgs/msg/TFMessage", True),
)


def test_other_topics_stand_as_comments_that_are_yaml_with_the_page_that_tells_how():
    text = suggest(RobotView([JOINTS], [], [ARM], URDF, others=OTHERS)).to_yaml()
    assert "cmd_vel" not in str(yaml.safe_load(text)), "comments alone"
    comments = text[text.index("# Seen and left out") :].splitlines()[1:]
    assert yaml.safe_load("\n".join(line.removeprefix("# ").removeprefix("#") for line in comments)) == {
        "commands": [
            {"topic": "cmd_vel", "type": TWIST, "fields": {"twist.linear.x": "cmd_vel.twist.linear.x"}},
            {
                "topic": "gripper/command",
                "type": "std_msgs/msg/Float64",
                "fields": {"data": "gripper_command"},
            },
            {
                "action": "grip",
                "type": "control_msgs/action/GripperCommand",
                "fields": {"command.position": "grip"},
            },
        ],
        "state": [
            {"topic": "imu", "type": IMU, "fields": ["orientation.x"], "names": ["imu.orientation.x"]},
            {"topic": "odom", "type": "nav_msgs/msg/Odometry"},
        ],
        "instruction": {"topic": "say", "type": "std_msgs/msg/String"},
        "stops": {"estop": {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": STOPS_WHEN}},
    }
    pages = set(re.findall(r"docs/\S+\.md", text))
    assert all((Path(__file__).parents[3] / page).is_file() for page in pages)
    assert {"docs/how-to/mobile_base.md", "docs/how-to/state_from_any_message.md"} < pages
    assert NOT_INSTALLED in text


def test_the_numbers_of_two_topics_of_one_type_have_names_of_their_own():
    """A contract loads with both."""
    numbers = ("orientation.x", "orientation.w")
    imus = [OtherTopic(topic, IMU, True, numbers=numbers) for topic in ("imu", "wrist/imu")]
    level = OtherTopic("level", "std_msgs/msg/Float64", True, numbers=("data",))
    generated = suggest(RobotView([JOINTS], [], [ARM], URDF, others=[*imus, level]))
    content = fill_in(
        generated.content, {"fps": 30.0, "actions.limits.roll.min": -6.0, "actions.limits.roll.max": 6.0}
    )
    content["state"] += [source for one in generated.left_out for source in one.entry]
    contract = parse_contract(yaml.safe_dump(content), "uncommented")
    assert contract.state_names[3:] == (
        *("imu.orientation.x", "imu.orientation.w", "wrist_imu.orientation.x", "wrist_imu.orientation.w"),
        "level",
    )


def test_a_topic_without_numbers_is_noted_and_one_with_many_says_how_many():
    scan = OtherTopic("scan", "some_msgs/msg/Scan", True, numbers=tuple(f"x{place}" for place in range(20)))
    cloud = OtherTopic("label", "some_msgs/msg/Label", True)
    generated = suggest(RobotView([JOINTS], others=[scan, cloud]))
    assert "label: left out, some_msgs/msg/Label has no number" in generated.notes
    (left_out,) = generated.left_out
    assert left_out.entry[0]["fields"] == [f"x{place}" for place in range(16)]
    assert left_out.why.endswith("the first 16 of its 20 numbers")


def test_nothing_seen_is_all_marked():
    assert places(suggest(RobotView())) == [
        "robot_type",
        "fps",
        "state",
        "actions.kind",
        "actions.names",
        "actions.limits",
        "commands.0.topic",
        "commands.0.type",
        "commands.0.names",
    ]


@pytest.mark.parametrize(
    ("encoding", "why"),
    [
        ("bayer_rggb8; jpeg compressed mono8", "made of bayer_rggb8"),
        ("16UC1; jpeg compressed ", "expected png"),
        ("rgb8; png compressed bgr8", "expected jpeg"),
    ],
)
def test_a_compressed_topic_that_the_robot_would_refuse_is_left_for_the_raw_one(encoding: str, why: str):
    images = [
        ImageTopic("wrist/image_raw/compressed", COMPRESSED_IMAGE, encoding),
        ImageTopic("wrist/image_raw", IMAGE, encoding.partition(";")[0], 640, 480),
    ]
    generated = suggest(RobotView([JOINTS], images, [], URDF))
    assert generated.content["images"]["wrist"]["topic"] == "wrist/image_raw"
    assert any(note.startswith(images[0].topic) and why in note for note in generated.notes)


def test_cameras_are_named_after_their_topics_and_stand_once():
    images = [
        ImageTopic("wrist/image_raw", IMAGE, "rgb8", 640, 480),
        ImageTopic("wrist/image_raw/compressed", COMPRESSED_IMAGE, "jpeg"),
        ImageTopic("wrist/image_raw/compressedDepth", COMPRESSED_IMAGE, "16UC1; compressedDepth"),
        ImageTopic("depth/image_rect", IMAGE, "16UC1", 320, 240),
        ImageTopic("left/camera/image_raw", IMAGE),
    ]
    generated = suggest(RobotView([JOINTS], images, [], URDF))
    assert generated.content["images"] == {
        "depth": {"topic": "depth/image_rect", "type": IMAGE, "colour": "depth"},
        "left_camera": {
            "topic": "left/camera/image_raw",
            "type": IMAGE,
            "colour": "FILL_IN: rgb or depth; no message was received on left/camera/image_raw",
        },
        "wrist": {"topic": "wrist/image_raw/compressed", "type": COMPRESSED_IMAGE, "colour": "rgb"},
    }


@pytest.mark.parametrize("name", ["a\nfps: 1", "a\u2028b", "'", "{x: [", "- #"])
def test_a_name_from_outside_stays_a_name(name: str):
    topic = JointTopic("joint_states", (name,), 50.0)
    generated = suggest(RobotView([topic, JointTopic("others", (name,), 50.0)], remarks=[name]))
    content = yaml.safe_load(generated.to_yaml())
    assert content["state"][0]["names"] == [name]
    assert content["fps"].startswith(FILL_IN)
