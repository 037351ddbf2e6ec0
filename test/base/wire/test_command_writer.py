# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands carry the controller's joints in the controller's order."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from arm_writer import ACTION_NAMES, ALL_TYPES, PERIOD_NS, STAMP, writer
from builtin_interfaces.msg import Time
from hypothesis import given, settings, strategies as st

from remote_inference.base.contract.commands.sink import COMMAND_INTERFACES
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.wire.arrays import WireError
from support.builders import FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY


@settings(deadline=None)
@given(st.permutations(ACTION_NAMES), st.integers(1, 4))
def test_actions_go_out_in_the_controllers_order(order, count):
    values = dict(zip(ACTION_NAMES, (0.1, 0.2, 0.3, 0.4), strict=True))
    message = writer(order[:count]).message(np.array([[*values.values()]]), STAMP)
    assert message.data.tolist() == [values[name] for name in order[:count]]


def test_the_field_is_an_array_of_doubles():
    data = writer(["wrist"]).message(np.arange(4.0)[np.newaxis], STAMP).data
    assert isinstance(data, array)
    assert data.typecode == "d"


@pytest.mark.parametrize("shape", [(4,), (1, 3), (1, 5), (0, 4), (1, 1, 4)])
def test_an_action_of_another_shape_is_refused(shape):
    with pytest.raises(WireError, match=r"arm/commands: found an action \[.*\], expected \[rows, 4\]"):
        writer(["wrist"]).message(np.zeros(shape), STAMP)


@pytest.mark.parametrize("kind", ["position", "velocity", "effort"])
def test_a_joint_state_carries_the_command_in_the_field_of_its_kind(kind):
    message = writer(["wrist", "elbow"], kind, JOINT_STATE).message(np.arange(8.0).reshape(2, 4), STAMP)
    assert list(message.name) == ["wrist", "elbow"]
    fields = {field: list(getattr(message, field)) for field in ("position", "velocity", "effort")}
    assert fields == {**{key: [] for key in fields}, kind: [2.0, 1.0]}
    assert message.header.stamp == STAMP


def test_a_trajectory_carries_the_horizon_in_points_one_period_apart():
    rows = np.arange(12.0).reshape(3, 4)
    message = writer(["wrist", "elbow"], "position", JOINT_TRAJECTORY).message(rows, STAMP)
    assert list(message.joint_names) == ["wrist", "elbow"]
    assert [list(point.positions) for point in message.points] == [[2.0, 1.0], [6.0, 5.0], [10.0, 9.0]]
    starts_ns = [p.time_from_start.sec * 10**9 + p.time_from_start.nanosec for p in message.points]
    assert starts_ns == [PERIOD_NS, 2 * PERIOD_NS, 3 * PERIOD_NS]
    assert message.header.stamp == Time()  # zero: begins when it arrives
    assert all(not len(point.velocities) for point in message.points)  # the last point must be at rest


@pytest.mark.parametrize(("type_name", "first_ns"), [(JOINT_TRAJECTORY, PERIOD_NS + 45), (JOINT_STATE, None)])
def test_a_trajectory_may_be_late_and_other_commands_are_not_told(type_name, first_ns):
    late = writer(["wrist"], "position", type_name).message(np.zeros((1, 4)), STAMP, late_ns=45)
    if first_ns is None:
        assert late == writer(["wrist"], "position", type_name).message(np.zeros((1, 4)), STAMP)
    else:
        assert late.points[0].time_from_start.nanosec == first_ns


def test_only_trajectory_controllers_keep_moving_without_new_commands():
    takes = {kind: COMMAND_INTERFACES.get(kind).takes_horizon for kind in ALL_TYPES}
    assert takes == {FLOAT64_MULTI_ARRAY: False, JOINT_STATE: False, JOINT_TRAJECTORY: True}
