# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads messages that carry names beside their numbers, in an order that may change with each message.

They are read by the fields that they have, not by their class: control_msgs need not be installed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remote_inference.wire.sensors.error import SensorError

_DOF_FIELDS = ("reference", "feedback", "feedback_dot", "error", "error_dot", "time_step", "output")


def read_dynamic_joints(message: Any) -> Mapping[str, float]:
    """Return the values of a control_msgs/msg/DynamicJointState as `joint.interface`.

    Raises SensorError for a list that is not as long as that of its names.
    """
    joints, groups = message.joint_names, message.interface_values
    _require_pairs("joint_names", len(joints), "interface_values", len(groups))
    found: dict[str, float] = {}
    for joint, group in zip(joints, groups, strict=True):
        names, values = group.interface_names, group.values
        _require_pairs(f"interface_names of {joint}", len(names), "values", len(values))
        for name, value in zip(names, values, strict=True):
            found[f"{joint}.{name}"] = value
    return found


def read_degrees_of_freedom(message: Any) -> Mapping[str, float]:
    """Return the values of a control_msgs/msg/MultiDOFStateStamped as `name.feedback`, `name.error`, ..."""
    return {
        f"{state.name}.{field}": getattr(state, field)
        for state in message.dof_states
        for field in _DOF_FIELDS
        if hasattr(state, field)  # not every release of control_msgs has them all
    }


def _require_pairs(names: str, count: int, values: str, found: int) -> None:
    if count != found:
        raise SensorError(f"found {found} {values} for {count} {names}, expected one for each")
