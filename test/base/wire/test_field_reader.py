# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Fields of any installed message are read by their paths, and each path that cannot work is refused."""

from __future__ import annotations

from array import array
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Point, Pose, PoseArray, WrenchStamped
from hypothesis import given, settings, strategies as st
from rcl_interfaces.msg import ParameterValue
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import BatteryState, Imu, Range
from std_msgs.msg import Float32MultiArray

from remote_inference.base.contract.field_path import parse_field_path
from remote_inference.base.wire.arrays import SensorError, WireError
from remote_inference.base.wire.sensors.fields import FieldReader, find_fields, number_paths

IMU = "sensor_msgs/msg/Imu"
ARRAY = "std_msgs/msg/Float32MultiArray"
PACKAGES = ("diagnostic_msgs", "geometry_msgs", "rcl_interfaces", "sensor_msgs", "std_msgs")
TYPES = sorted(
    f"{package}/msg/{name}"
    for package in PACKAGES
    for name in vars(import_module(f"{package}.msg"))
    if name[0].isupper()
)


def reader(type_name: str, *texts: str) -> FieldReader:
    return FieldReader(type_name, [parse_field_path(text) for text in texts])


def refusal(type_name: str, *texts: str) -> str:
    with pytest.raises(WireError) as found:
        reader(type_name, *texts)
    return str(found.value)


def test_numbers_come_in_the_order_of_the_paths_whatever_their_kind():
    message = Imu()
    message.orientation.w, message.orientation.x, message.angular_velocity.z = 0.5, 0.25, -2.0
    message.orientation_covariance[4] = 9.0
    message.header.stamp.sec = 7
    paths = ("orientation_covariance[3:6]", "angular_velocity.z", "header.stamp.sec", "orientation.w")
    read = reader(IMU, *paths).read(message)
    assert read.dtype == np.float64
    assert read.tolist() == [0.0, 9.0, 0.0, -2.0, 7.0, 0.5]


def test_a_message_may_come_as_bytes_and_be_longer_than_what_is_read():
    message = Float32MultiArray(data=array("f", [1.0, 2.0, 3.0, 4.0]))
    read = reader(ARRAY, "data[2]", "data[0:3]").read(
        deserialize_message(serialize_message(message), Float32MultiArray)
    )
    assert read.tolist() == [3.0, 1.0, 2.0, 3.0]


def test_a_path_leads_through_items_of_sequences():
    message = PoseArray(poses=[Pose(), Pose(position=Point(x=3.0, y=4.0))])
    assert reader("geometry_msgs/msg/PoseArray", "poses[1].position.y").read(message).tolist() == [4.0]


def test_booleans_are_numbers():
    message = BatteryState(present=True)
    assert reader("sensor_msgs/msg/BatteryState", "present").read(message).tolist() == [1.0]
    flags = ParameterValue(bool_array_value=[True, False, True])
    found = reader("rcl_interfaces/msg/ParameterValue", "bool_array_value[0:3]").read(flags)
    assert found.tolist() == [1.0, 0.0, 1.0]


def test_the_result_is_a_copy():
    message = Float32MultiArray(data=array("f", [1.0, 2.0]))
    read = reader(ARRAY, "data[0:2]").read(message)
    message.data[0] = 9.0
    assert read.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("type_name", "text", "words"),
    [
        (
            "geometry_msgs/msg/TwistStamped",
            "twist.linaer.x",
            "found 'twist.linaer.x': no 'linaer' in geometry_msgs/msg/Twist, "
            "which has linear, angular; did you mean 'twist.linear.x'?",
        ),
        (
            "geometry_msgs/msg/TwistStamped",
            "linear.x",
            "found 'linear.x': no 'linear' in geometry_msgs/msg/TwistStamped, "
            "which has header, twist; did you mean 'twist.linear.x'?",
        ),
        (
            IMU,
            "orientation.q",
            "found 'orientation.q': no 'q' in geometry_msgs/msg/Quaternion, which has x, y, z, w",
        ),
        (
            IMU,
            "orientation",
            "found 'orientation', a geometry_msgs/msg/Quaternion of sensor_msgs/msg/Imu, "
            "which has x, y, z, w; expected a number",
        ),
        (
            IMU,
            "header.frame_id",
            "found 'header.frame_id', a string of std_msgs/msg/Header; expected a number",
        ),
        (
            IMU,
            "header.frame_id.x",
            "found 'header.frame_id.x': frame_id of std_msgs/msg/Header is a string, "
            "expected the path to end there",
        ),
        ("std_msgs/msg/Byte", "data", "found 'data', an octet of std_msgs/msg/Byte; expected a number"),
        (
            "std_msgs/msg/ByteMultiArray",
            "data[0]",
            "found 'data[0]', an octet of std_msgs/msg/ByteMultiArray; expected a number",
        ),
        (
            ARRAY,
            "data",
            "found 'data': data is a sequence, expected an index: data[0], or data[0:8] for several",
        ),
        (
            ARRAY,
            "layout.dim.size",
            "found 'layout.dim.size': dim is a sequence, expected an index: dim[0]",
        ),
        (
            IMU,
            "orientation_covariance",
            "found 'orientation_covariance': orientation_covariance is an array of 9, "
            "expected an index: orientation_covariance[0], or orientation_covariance[0:9] for several",
        ),
        (
            IMU,
            "orientation_covariance[3:10]",
            "found 'orientation_covariance[3:10]': item 9 of orientation_covariance, expected 0 to 8: "
            "it has 9 items",
        ),
        (
            "rcl_interfaces/msg/ParameterDescriptor",
            "integer_range[1].step",
            "found 'integer_range[1].step': item 1 of integer_range, expected 0 to 0: it has 1 items at most",
        ),
        (
            IMU,
            "orientation[0].x",
            "found 'orientation[0].x': orientation is a geometry_msgs/msg/Quaternion, expected no index",
        ),
        (
            "sensor_msgs/msg/Range",
            "range[0]",
            "found 'range[0]': range is a float, expected no index",
        ),
        ("std_msgs/msg/Empty", "x", "found 'x': no 'x' in std_msgs/msg/Empty, which has no fields"),
    ],
)
def test_a_path_that_cannot_work_is_refused_with_what_is_there(type_name: str, text: str, words: str):
    assert refusal(type_name, text) == f"fields.0: {words}"


def test_the_path_is_named_by_its_place():
    problem = refusal(IMU, "orientation.x", "orientation.v")
    assert problem.startswith("fields.1: found 'orientation.v': no 'v' in geometry_msgs/msg/Quaternion, ")


@pytest.mark.parametrize("type_name", ["nav_msgs/msg/Odometri", "std_msgs/msg/Flot32", "os/msg/Path"])
def test_a_type_that_is_not_installed_is_refused(type_name: str):
    assert f"'{type_name}' is not installed" in refusal(type_name, "x")


def test_a_short_message_is_refused_naming_the_path_and_what_is_there():
    pad = Float32MultiArray(data=array("f", [1.0, 2.0]))
    for text in ("data[2]", "data[0:3]", "data[2:3]"):
        with pytest.raises(SensorError) as refused:
            reader(ARRAY, "data[0]", text).read(pad)
        assert str(refused.value) == f"{text}: found 2 items of data, expected 3 or more"
    with pytest.raises(SensorError, match=r"^poses\[1\]\.position\.x: found 0 items of poses, expected 2"):
        reader("geometry_msgs/msg/PoseArray", "poses[1].position.x").read(PoseArray())


def test_a_single_item_does_not_stand_for_a_slice():
    """numpy would write it to each place."""
    with pytest.raises(SensorError, match="found 1 items of data, expected 3 or more"):
        reader(ARRAY, "data[0:3]").read(Float32MultiArray(data=[1.0]))


def test_a_message_of_an_older_definition_is_refused_naming_the_field_that_it_lacks():
    """A bag's messages have the fields that they were recorded with."""

    class OldRange:
        range = 1.0

    class OldArray:
        data = 1.0

    with pytest.raises(SensorError, match="variance: found no variance in the message"):
        reader("sensor_msgs/msg/Range", "range", "variance").read(OldRange())
    with pytest.raises(SensorError, match=r"^data\[0:2\]: found 0 items of data, expected 2 or more$"):
        reader(ARRAY, "data[0:2]").read(OldArray())
    OldRange.range = "far"
    with pytest.raises(SensorError, match="cannot be read: could not convert string to float: 'far'"):
        reader("sensor_msgs/msg/Range", "range").read(OldRange())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused_by_its_path(value: float):
    message = WrenchStamped()
    message.wrench.force.y = value
    with pytest.raises(SensorError, match=f"^found wrench.force.y = {value}, expected finite values$"):
        reader("geometry_msgs/msg/WrenchStamped", "wrench.force.x", "wrench.force.y").read(message)
    pad = Float32MultiArray(data=array("f", [1.0, value]))
    with pytest.raises(SensorError, match=rf"^found data\[1\] = {value}, expected finite values$"):
        reader(ARRAY, "data[0:2]").read(pad)


def test_a_number_that_is_not_read_may_have_any_value():
    message = Range(range=0.5, max_range=float("nan"))
    assert reader("sensor_msgs/msg/Range", "range").read(message).tolist() == [0.5]


@pytest.mark.parametrize("type_name", TYPES)
def test_every_number_of_every_installed_type_can_be_read(type_name: str):
    """Sequences are empty in a new message, and so its paths through them are refused in words."""
    package, _, name = type_name.split("/")
    message = getattr(import_module(f"{package}.msg"), name)()
    for leaf in number_paths(type_name):
        try:
            (value,) = reader(type_name, leaf).read(message)
        except SensorError as error:
            problem = str(error)
        else:
            problem = "" if np.isfinite(value) else "not finite"
        assert not problem or "found 0 items of" in problem, problem


# What people may write: fields that are there, with other words and indices between them.
@st.composite
def attempts(draw: st.DrawFn) -> tuple[str, str]:
    type_name = draw(st.sampled_from(TYPES))
    leaves = list(number_paths(type_name)) or ["data"]
    words = draw(st.sampled_from(leaves)).replace("[0]", "").split(".")
    words += draw(st.lists(st.sampled_from(["x", "data", "header", "stamp", "nanosec"]), max_size=1))
    indices = st.sampled_from(["", "", "", "[0]", "[3]", "[99999]", "[0:4]", "[2:40]"])
    kept = draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
    parts = [f"{word}{draw(indices)}" for word, keep in zip(words, kept, strict=True) if keep]
    return type_name, ".".join(parts or words)


@settings(deadline=None, max_examples=300)
@given(attempts())
def test_any_path_of_any_type_works_or_is_refused_in_one_line(attempt: tuple[str, str]):
    type_name, text = attempt
    package, _, name = type_name.split("/")
    try:
        path = parse_field_path(text)
    except ValueError:
        return
    problem: Any = None
    try:
        made = FieldReader(type_name, [path])
    except WireError as error:
        problem = str(error)
    if problem is not None:
        assert problem.startswith(f"fields.0: found {text!r}")
        assert "expected" in problem or "which has" in problem
        assert "\n" not in problem
        return
    message = getattr(import_module(f"{package}.msg"), name)()
    try:
        values = made.read(message)
    except SensorError as error:
        problem = str(error)
    if problem is None:
        assert values.shape == (len(path.names),)
    else:
        assert text in problem or "expected finite values" in problem


def test_the_fields_of_a_type_are_what_rosidl_says():
    assert find_fields("std_msgs/msg/Float32MultiArray") == {
        "layout": "std_msgs/MultiArrayLayout",
        "data": "sequence<float>",
    }
