# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reading URDFs: joints and limits, and what is refused."""

from __future__ import annotations

import pytest

from remote_inference.tools.contracts.running_robot import RobotView, suggest
from remote_inference.tools.contracts.urdf import (
    MAX_BYTES,
    UrdfError,
    UrdfJoint,
    describe_accelerations,
    parse_urdf,
    suggest_limit,
)

LAUGHS = b"""<!DOCTYPE robot [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<robot name="&b;"/>"""


def parse(joints: str, robot: str = "arm"):
    return parse_urdf(f'<robot name="{robot}">{joints}</robot>', "arm.urdf")


def test_joints_have_their_limits():
    urdf = parse(
        '<joint name="lift" type="prismatic">'
        '<limit lower="0.1" upper="0.5" velocity="0.2" effort="30"/></joint>'
        '<joint name="tool" type="fixed"><origin xyz="0 0 1"/></joint>'
    )
    assert urdf.robot == "arm"
    assert urdf.joints == {
        "lift": UrdfJoint("prismatic", 0.1, 0.5, 0.2, 30.0),
        "tool": UrdfJoint("fixed"),
    }


def test_accelerations_that_a_urdf_of_version_1_2_bounds_are_left_to_the_controller():
    limits = '<limit lower="0" upper="1" velocity="2" acceleration="{}" deceleration="9" jerk="9"/>'
    text = (
        '<robot name="arm" version="1.2">'
        f'<joint name="elbow" type="revolute">{limits.format(4.5)}</joint>'
        f'<joint name="lift" type="prismatic">{limits.format(0.5)}</joint>'
        f'<joint name="old" type="revolute">{limits.format("inf")}</joint></robot>'
    )
    urdf = parse_urdf(text, "arm.urdf")
    assert suggest_limit(urdf, "elbow", "position")["max_velocity"] == 2.0
    (note,) = describe_accelerations(urdf)
    assert note.endswith("the controller has to keep elbow 4.5 rad/s^2, lift 0.5 m/s^2")
    assert describe_accelerations(parse('<joint name="a" type="revolute"/>')) == []
    assert describe_accelerations(None) == []
    assert suggest(RobotView(urdf=urdf)).notes[-1] == note


def test_a_joint_that_follows_another_is_not_free():
    urdf = parse(
        '<joint name="left" type="prismatic"/>'
        '<joint name="right" type="prismatic"><mimic joint="left" multiplier="-1"/></joint>'
        '<joint name="tool" type="fixed"/>'
    )
    assert {name: joint.is_free for name, joint in urdf.joints.items()} == {
        "left": True,
        "right": False,
        "tool": False,
    }


def test_joints_of_other_sections_are_not_the_robot_s():
    urdf = parse(
        '<ros2_control name="x" type="system"><joint name="a"/></ros2_control>'
        '<transmission name="t"><joint name="a"/></transmission>'
    )
    assert not urdf.joints


def test_an_infinite_limit_is_none():
    urdf = parse('<joint name="a" type="revolute"><limit lower="-inf" upper="inf" velocity="nan"/></joint>')
    assert urdf.joints["a"] == UrdfJoint("revolute")


def test_bytes_are_read_in_the_encoding_that_they_name():
    text = '<?xml version="1.0" encoding="iso-8859-1"?><robot name="\xe4rmel"/>'
    assert parse_urdf(text.encode("iso-8859-1"), "arm.urdf").robot == "\xe4rmel"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LAUGHS, "found a DOCTYPE, expected none"),
        (b'<!DOCTYPE robot SYSTEM "file:///etc/passwd"><robot/>', "found a DOCTYPE, expected none"),
        (b"<robot>", "is not valid XML: no element found"),
        (b'<?xml version="1.0" encoding="klingon"?><robot/>', "is not valid XML: unknown encoding"),
        (b"\xff\xfe", "is not valid XML"),
        (b"<sdf/>", "found 'sdf', expected <robot>"),
        (b'<robot xmlns:xacro="x"><xacro:macro/></robot>', "'xacro:macro', expected the output of xacro"),
        (b'<robot><joint type="fixed"/></robot>', "found a joint without a name, expected one"),
        (b'<robot><joint name="a" type="ball"/></robot>', "joint 'a': found type 'ball', expected revolute"),
        (
            b'<robot><joint name="a" type="fixed"/><joint name="a" type="fixed"/></robot>',
            "joint 'a': found twice",
        ),
        (
            b'<robot><joint name="a" type="revolute"><limit lower="low"/></joint></robot>',
            "joint 'a': lower: found 'low', expected a number",
        ),
        (b'<robot><joint name="a" type="revolute"><mimic/></joint></robot>', "mimic names no joint"),
        (b" " * (MAX_BYTES + 1), "expected at most"),
    ],
)
def test_what_is_no_urdf_is_refused(text: bytes, words: str):
    with pytest.raises(UrdfError) as caught:
        parse_urdf(text, "arm.urdf")
    assert str(caught.value).startswith("arm.urdf: ")
    assert words in str(caught.value)
