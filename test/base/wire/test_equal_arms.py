# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Two arms whose drivers call their joints alike, on topics of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.base.wire.commands import make_command_writers, make_sink_reader
from remote_inference.base.wire.sensors.joint_merge import JointDrivers, needs_of
from remote_inference.base.wire.sensors.state_readers import make_state_reader

SIDES = ("left", "right")
JOINTS = ("shoulder", "elbow")
ALL = tuple(f"{side}_{joint}" for side in SIDES for joint in JOINTS)
STAMP = Time()


def document(commands: str = "trajectory_msgs/msg/JointTrajectory", **command: Any) -> dict[str, Any]:
    def names(side: str) -> list[str]:
        return [f"{side}_{joint}" for joint in JOINTS]

    return {
        "robot_type": "two_arms",
        "fps": 20.0,
        "state": [
            {
                "topic": f"{side}/joint_states",
                "type": "sensor_msgs/msg/JointState",
                "field": "position",
                "names": names(side),
                "prefix": f"{side}_",
            }
            for side in SIDES
        ],
        "actions": {
            "kind": "position",
            "names": list(ALL),
            "limits": {name: {"min": -1.0, "max": 1.0, "max_velocity": 1.0} for name in ALL},
        },
        "commands": [
            {"topic": f"{side}/commands", "type": commands, "names": names(side), "prefix": f"{side}_"}
            | command
            for side in SIDES
        ],
    }


def parse(content: dict[str, Any]) -> Contract:
    return parse_document(content, Contract, "two_arms.yaml")


def test_each_arm_is_read_by_its_own_driver_s_names() -> None:
    contract = parse(document())
    assert contract.state_names == ALL
    for place, source in contract.state_sources.items():
        message = JointState(name=["elbow", "gripper", "shoulder"], position=[0.2, 0.9, 0.1])
        assert make_state_reader(source, place).read(message) == pytest.approx([0.1, 0.2])
        drivers = JointDrivers(needs_of(contract.joint_sources, source.topic))
        assert drivers.take(message, 1) is not None
        assert drivers.missing == ()


@pytest.mark.parametrize("kind", ["trajectory_msgs/msg/JointTrajectory", "sensor_msgs/msg/JointState"])
def test_each_arm_is_commanded_by_its_own_driver_s_names(kind: str) -> None:
    contract = parse(document(kind))
    action = np.array([[0.1, 0.2, 0.3, 0.4]])
    for writer, sink in zip(make_command_writers(contract), contract.commands, strict=True):
        message = writer.message(action, STAMP)
        found = message.joint_names if kind.startswith("trajectory") else message.name
        assert list(found) == list(JOINTS)
        values = make_sink_reader(sink, contract).read(message)
        assert values == pytest.approx([0.1, 0.2] if sink.topic.startswith("left") else [0.3, 0.4])


def with_source(**changes: Any) -> dict[str, Any]:
    content = document()
    content["state"][0] |= changes
    return content


IMU = {"type": "sensor_msgs/msg/Imu", "field": None, "fields": ["orientation.x", "orientation.y"]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (with_source(prefix="links_"), "prefix: found 'links_' with left_shoulder, left_elbow"),
        (with_source(prefix="left_elbow"), "prefix: found 'left_elbow' with left_shoulder, left_elbow"),
        (
            with_source(**IMU),
            "prefix: found with sensor_msgs/msg/Imu, expected it with sensor_msgs/msg/Joint",
        ),
        (with_source(topic="right/joint_states"), "found shoulder of right/joint_states as right_shoulder"),
        (document("std_msgs/msg/Float64MultiArray"), "expected a type that names its joints"),
        (document(prefix="links_"), "prefix: found 'links_' with left_shoulder, left_elbow"),
    ],
)
def test_a_prefix_that_fits_no_names_is_refused(content: dict[str, Any], problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse({key: value for key, value in content.items() if value is not None})
    assert problem in str(caught.value)


def test_a_prefix_of_fields_is_refused() -> None:
    content = document()
    fields = {"position[0]": "left_shoulder", "position[1]": "left_elbow"}
    content["commands"][0] = {
        "topic": "left/commands",
        "type": "sensor_msgs/msg/JointState",
        "fields": fields,
        "prefix": "left_",
    }
    with pytest.raises(DocumentError, match="prefix: found with fields, expected none"):
        parse(content)
