# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reading URDFs: joints and limits, and what is refused."""

from __future__ import annotations

import pytest

from remote_inference.base.documents.document import DocumentError
from remote_inference.tools.contracts.urdf import (
    MAX_BYTES,
    UrdfJoint,
    find_joint_limits,
    parse_urdf,
    suggest_limit,
    tighten,
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


BOUNDED = parse(
    '<joint name="elbow" type="revolute"><limit lower="0" upper="1" velocity="2" effort="1" '
    'acceleration="4.5" deceleration="9" jerk="90"/></joint>'
    '<joint name="lift" type="prismatic"><limit lower="0" upper="1" velocity="2" jerk="9"/></joint>'
    '<joint name="old" type="revolute"><limit velocity="2" acceleration="inf" jerk="0"/></joint>'
)


@pytest.mark.parametrize("kind", ["position", "velocity"])
def test_accelerations_and_jerks_of_version_1_2_are_limits_of_what_has_a_velocity(kind: str):
    elbow = suggest_limit(BOUNDED, "elbow", kind)
    assert elbow["max_velocity"] == 2.0
    assert (elbow["max_acceleration"], elbow["max_deceleration"], elbow["max_jerk"]) == (4.5, 9.0, 90.0)
    for joint in ("lift", "old"):  # a jerk alone is none of a contract, nor is infinity a bound
        assert set(suggest_limit(BOUNDED, joint, kind)) <= {"min", "max", "max_velocity", "unit"}


def test_efforts_have_no_bound_of_an_acceleration():
    assert set(suggest_limit(BOUNDED, "elbow", "effort")) == {"min", "max", "max_velocity"}


def said_by(**entries: object) -> tuple[dict[str, float | None], list[str]]:
    """Return the elbow's bounds of motion beside a joint_limits with these keys, and the notes on them."""
    notes: list[str] = []
    content = {"joint_limits": {"elbow": entries, "stranger": entries}}
    joint = tighten(BOUNDED, find_joint_limits(content), "limits.yaml", notes).joints["elbow"]
    return {key: getattr(joint, key) for key in ("velocity", "acceleration", "deceleration", "jerk")}, notes


OWN = {"velocity": 2.0, "acceleration": 4.5, "deceleration": 9.0, "jerk": 90.0}


@pytest.mark.parametrize("key", OWN)
def test_of_the_urdf_and_a_joint_limits_the_smaller_bound_counts(key: str):
    has = f"has_{key}_limits"
    assert said_by(**{has: True, f"max_{key}": 1.5}) == (
        OWN | {key: 1.5},
        [f"max_{key} of elbow: limits.yaml says 1.5, which is the smaller"],
    )
    assert said_by(**{has: True, f"max_{key}": 100.0}) == (OWN, [])
    assert said_by(**{has: False, f"max_{key}": 1.5}) == (OWN, [])
    assert said_by(**{f"max_{key}": 1.5}) == (OWN, [])
    assert BOUNDED.joints["elbow"].velocity == 2.0, "the URDF that was read is left as it is"


def test_a_deceleration_may_be_negative_as_moveit_has_it():
    assert said_by(has_deceleration_limits=True, max_deceleration=-5.0)[0]["deceleration"] == 5.0


@pytest.mark.parametrize("found", [0.0, float("nan"), float("inf"), "fast", None])
def test_what_is_no_bound_is_said_and_left_out(found: object):
    bounds, (note,) = said_by(has_jerk_limits=True, max_jerk=found)
    assert bounds == OWN
    assert note.startswith("max_jerk of elbow: limits.yaml says ")
    assert note.endswith(", which is left out")


def test_joint_limits_stand_at_the_top_of_a_file_or_below_a_node():
    entry = {"has_jerk_limits": True, "max_jerk": 2.0}
    assert find_joint_limits({"joint_limits": {"a": entry, "b": 3}, "default": 0.1}) == {"a": entry}
    assert find_joint_limits({"/arm": {"ros__parameters": {"joint_limits": {"a": entry}}}}) == {"a": entry}
    assert find_joint_limits({"joint_limits": None}) == {}
    assert find_joint_limits(["joint_limits"]) == {}


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
    with pytest.raises(DocumentError) as caught:
        parse_urdf(text, "arm.urdf")
    assert str(caught.value).startswith("arm.urdf: ")
    assert words in str(caught.value)
