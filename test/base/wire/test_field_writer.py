# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands in the fields of any message: where each action goes, what stays, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from hypothesis import given, strategies as st
from rclpy.serialization import deserialize_message, serialize_message

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.field_path import parse_field_path
from remote_inference.base.documents.document import parse_document
from remote_inference.base.wire.arrays import SensorError, WireError
from remote_inference.base.wire.commands import make_command_writer, make_sink_reader
from remote_inference.base.wire.commands.fields import FLOATS
from remote_inference.base.wire.sensors.fields import find_type, number_paths
from support.builders import JOINTS, contract_document
from support.robot.pose_robot import pose_at, pose_contract

STAMP = Time(sec=7, nanosec=8)
TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
TWIST = "geometry_msgs/msg/TwistStamped"
PLAIN = {"fields": {"twist.linear.x": JOINTS[0], "twist.angular.z": JOINTS[1]}}


def contract_with(kind: str = "velocity", **sink: Any) -> Contract:
    """Return a contract whose one controller has these keys."""
    document = contract_document(kind)
    document["commands"] = [{"topic": "cmd", **sink}]
    return parse_document(document, Contract, "fields.contract.yaml")


def write(contract: Contract, *values: float) -> Any:
    """Return the message of a command, as it arrives."""
    writer = make_command_writer(contract.commands[0], contract)
    message = writer.message(np.array([values]), STAMP)
    return deserialize_message(serialize_message(message), type(message))


def problem_of(**sink: Any) -> str:
    contract = contract_with(**sink)
    with pytest.raises(WireError) as caught:
        make_command_writer(contract.commands[0], contract)
    return str(caught.value)


def test_each_action_goes_into_its_field_and_the_header_gets_the_stamp():
    contract = contract_with(type=TWIST, **PLAIN, constant={"header.frame_id": "base_link"})
    message = write(contract, 0.25, -0.5)
    assert (message.twist.linear.x, message.twist.angular.z) == (0.25, -0.5)
    assert (message.header.frame_id, message.header.stamp) == ("base_link", STAMP)
    assert (message.twist.linear.y, message.twist.angular.x) == (0.0, 0.0)


def test_a_message_without_a_header_has_no_stamp():
    contract = contract_with(
        type="geometry_msgs/msg/Twist", fields={"linear.x": JOINTS[0], "angular.z": JOINTS[1]}
    )
    assert write(contract, 0.1, 0.2).linear.x == 0.1


def test_sequences_are_as_long_as_their_fields_need():
    contract = contract_with(
        type="sensor_msgs/msg/JointState",
        fields={"velocity[2]": JOINTS[0], "velocity[0]": JOINTS[1]},
        constant={"name[1]": "idle", "name[2]": "wheel"},
    )
    message = write(contract, 0.5, 0.75)
    assert list(message.velocity) == [0.75, 0.0, 0.5]
    assert message.name == ["", "idle", "wheel"]


def test_fields_within_a_sequence_of_messages_are_reached():
    contract = contract_with(
        type=TRAJECTORY,
        kind="velocity",
        fields={"points[0].velocities[0]": JOINTS[0], "points[0].velocities[1]": JOINTS[1]},
        constant={"points[0].time_from_start.nanosec": 500, "joint_names[0]": "wheel"},
    )
    message = write(contract, 0.5, 0.75)
    assert list(message.points[0].velocities) == [0.5, 0.75]
    assert message.points[0].time_from_start.nanosec == 500


def test_one_message_does_not_change_another():
    contract = contract_with(type=TWIST, **PLAIN)
    writer = make_command_writer(contract.commands[0], contract)
    first = writer.message(np.array([[0.1, 0.2]]), STAMP)
    writer.message(np.array([[0.3, 0.4]]), Time())
    assert (first.twist.linear.x, first.header.stamp) == (0.1, STAMP)


def test_a_number_in_single_precision_is_what_arrives():
    contract = contract_with(type="sensor_msgs/msg/Joy", fields={"axes[0]": JOINTS[0], "axes[1]": JOINTS[1]})
    writer = make_command_writer(contract.commands[0], contract)
    sent = writer.message(np.array([[0.1, 0.2]]), STAMP)
    assert list(sent.axes) == list(deserialize_message(serialize_message(sent), type(sent)).axes)


def test_limits_beyond_single_precision_are_refused():
    document = contract_document("effort")
    for name in JOINTS:
        document["actions"]["limits"][name] |= {"min": -1e40, "max": 1e40}
    fields = {"axes[0]": JOINTS[0], "axes[1]": JOINTS[1]}
    document["commands"] = [{"topic": "cmd", "type": "sensor_msgs/msg/Joy", "fields": fields}]
    contract = parse_document(document, Contract, "fields.contract.yaml")
    with pytest.raises(WireError, match=r"a float, for shoulder, whose limits are beyond it"):
        make_command_writer(contract.commands[0], contract)


def test_a_simulated_controller_reads_what_was_written():
    contract = contract_with(type=TWIST, **PLAIN)
    reader = make_sink_reader(contract.commands[0], contract)
    message = write(contract, 0.25, -0.5)
    assert reader.read(message) == pytest.approx([0.25, -0.5])
    message.twist.linear.x = float("nan")
    with pytest.raises(SensorError, match=r"^cmd: .*twist\.linear\.x"):
        reader.read(message)


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        ({"type": "gone_msgs/msg/Twist", **PLAIN}, "message type 'gone_msgs/msg/Twist' is not installed"),
        (
            {"type": TWIST, "fields": {"twist.linear.u": JOINTS[0], "twist.angular.z": JOINTS[1]}},
            "fields: found 'twist.linear.u': no 'u' in geometry_msgs/msg/Vector3, which has x, y, z",
        ),
        (
            {"type": TWIST, "fields": {"linear.x": JOINTS[0], "twist.angular.z": JOINTS[1]}},
            "did you mean 'twist.linear.x'?",
        ),
        (
            {"type": TWIST, "fields": {"header.stamp.sec": JOINTS[0], "twist.angular.z": JOINTS[1]}},
            "fields: found 'header.stamp.sec', a int32, expected a float or double",
        ),
        (
            {"type": TWIST, **PLAIN, "constant": {"header.frame_id": 3}},
            "constant.header.frame_id: found 3, expected a string",
        ),
        (
            {"type": TWIST, **PLAIN, "constant": {"twist.linear.y": "fast"}},
            "constant.twist.linear.y: found 'fast', expected a double",
        ),
        (
            {"type": TWIST, **PLAIN, "constant": {"twist.linear.y": True}},
            "constant.twist.linear.y: found True, expected a double",
        ),
        (
            {
                "type": TRAJECTORY,
                "kind": "effort",
                "fields": {"points[0].effort[0]": JOINTS[0], "points[0].effort[1]": JOINTS[1]},
                "constant": {"points[0].time_from_start.nanosec": -1},
            },
            "constant.points[0].time_from_start.nanosec: found -1, expected 0 to 4294967295",
        ),
        ({"type": TWIST, **PLAIN, "constant": {"twist.linear": 1}}, "expected a number, a text or a boolean"),
        (
            {"type": TWIST, **PLAIN, "constant": {"twist.linear.y": 0.5}},
            "constant: found twist.linear.y: 0.5 beside velocity actions, expected 0",
        ),
        (
            {"type": TWIST, **PLAIN, "constant": {"twist.linear.y": 10**400}},
            "constant.twist.linear.y: found 1000",
        ),
        (
            {"type": TWIST, **PLAIN, "constant": {"header.stamp.sec": 7}},
            "constant: found 'header.stamp.sec', expected none: the node stamps its messages",
        ),
        (
            {
                "type": "sensor_msgs/msg/JointState",
                "fields": {"velocity[999999]": JOINTS[0], "velocity[0]": JOINTS[1]},
            },
            "fields: found item 999999 in 'velocity[999999]', expected less than 256",
        ),
    ],
)
def test_what_does_not_fit_the_message_is_refused_when_it_is_loaded(sink: dict[str, Any], problem: str):
    assert problem in problem_of(**sink)


@given(st.data())
def test_any_field_of_any_number_takes_an_action_or_is_refused_in_words(data: st.DataObject):
    name = data.draw(
        st.sampled_from(["geometry_msgs/msg/PoseStamped", "sensor_msgs/msg/Imu", TRAJECTORY, TWIST])
    )
    kind = data.draw(st.sampled_from(["position", "velocity", "effort"]))
    paths = [path for path in number_paths(name) if parse_field_path(path).quantity in {"", kind}]
    pair = data.draw(st.lists(st.sampled_from(paths), min_size=2, max_size=2, unique=True))
    contract = contract_with(type=name, kind=kind, fields=dict(zip(pair, JOINTS, strict=True)))
    if not all(find_type(name, parse_field_path(path))[1] in FLOATS for path in pair):
        with pytest.raises(WireError, match="expected a float or double"):
            write(contract, 0.5, 0.25)
        return
    message = write(contract, 0.5, 0.25)
    assert make_sink_reader(contract.commands[0], contract).read(message) == pytest.approx([0.5, 0.25])


# -- switches ------------------------------------------------------------------------------------------------


def switch_contract(
    message: str, field: str, low: float = 0.0, high: float = 1.0, **sink: object
) -> Contract:
    """Return the contract of a joint, and of a gripper that is a switch in a message of its own."""
    document = contract_document()
    middle = (low + high) / 2
    thresholds = {"opens_below": middle - 0.1 * (high - low), "closes_above": middle + 0.1 * (high - low)}
    document["actions"]["limits"][JOINTS[1]] = {"kind": "switch", "min": low, "max": high, **thresholds}
    document["commands"] = [
        {"topic": "grip", "type": message, "fields": {field: JOINTS[1]}, **sink},
        {"topic": "arm", "type": "std_msgs/msg/Float64MultiArray", "names": [JOINTS[0]]},
    ]
    return parse_document(document, Contract, "switch.contract.yaml")


@pytest.mark.parametrize(
    ("message", "field", "low", "high", "expected"),
    [
        ("std_msgs/msg/Bool", "data", 0.0, 1.0, (False, True)),
        ("std_msgs/msg/Bool", "data", -1.0, 0.5, (False, True)),
        ("std_msgs/msg/Float64", "data", 0.005, 0.04, (0.005, 0.04)),
        ("std_msgs/msg/UInt8", "data", 0.0, 255.0, (0, 255)),
        ("std_msgs/msg/Int8", "data", -128.0, 7.0, (-128, 7)),
    ],
)
def test_a_switch_goes_into_a_boolean_or_a_number_and_is_read_from_it(
    message: str, field: str, low: float, high: float, expected: tuple
):
    contract = switch_contract(message, field, low, high)
    reader = make_sink_reader(contract.commands[0], contract)
    for value, found in zip((low, high), expected, strict=True):
        sent = write(contract, 0.0, value)
        assert sent.data == found
        assert type(sent.data) is type(found)
        assert reader.read(sent) == pytest.approx([value])


@pytest.mark.parametrize(
    ("message", "low", "high", "expected"),
    [
        (
            "std_msgs/msg/UInt8",
            0.0,
            0.5,
            "fields.data: found limits 0 and 0.5, expected whole numbers: uint8",
        ),
        ("std_msgs/msg/UInt8", 0.0, 256.0, "fields.data: found 256, expected 0 to 255"),
        ("std_msgs/msg/UInt8", -1.0, 1.0, "fields.data: found -1, expected 0 to 255"),
        ("std_msgs/msg/String", 0.0, 1.0, "fields: found 'data', a string, expected a boolean or a number"),
    ],
)
def test_a_field_that_a_switch_does_not_fit_is_refused(message: str, low: float, high: float, expected: str):
    contract = switch_contract(message, "data", low, high)
    with pytest.raises(WireError) as caught:
        make_command_writer(contract.commands[0], contract)
    assert expected in str(caught.value)


def test_a_constant_may_stand_beside_a_switch_which_no_zeros_stop():
    contract = switch_contract("geometry_msgs/msg/Vector3", "x", 0.0, 0.04, constant={"y": 20.0})
    message = write(contract, 0.0, 0.04)
    assert (message.x, message.y) == (0.04, 20.0)


def test_a_pose_goes_into_a_stamped_message_and_is_read_from_it():
    contract = pose_contract()
    sink, stamp = contract.commands[0], Time(sec=3, nanosec=4)
    pose = pose_at(0.1, -0.2, 0.3, angle=0.7)
    message = make_command_writer(sink, contract).message(pose[np.newaxis], stamp)
    assert message.header.stamp == stamp
    assert message.header.frame_id == "base_link"
    assert (message.pose.position.y, message.pose.orientation.w) == (pose[1], pose[6])
    assert make_sink_reader(sink, contract).read(message).tolist() == pose.tolist()
