# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads the robot's sensor messages as the contract says: its state as numbers, images ready to be sent."""

from remote_inference.base.contract.state_source import MESSAGE_READERS

MESSAGE_READERS.add("control_msgs/msg/DynamicJointState", f"{__name__}.state_readers:read_dynamic_joints")
MESSAGE_READERS.add(
    "control_msgs/msg/MultiDOFStateStamped", f"{__name__}.state_readers:read_degrees_of_freedom"
)
