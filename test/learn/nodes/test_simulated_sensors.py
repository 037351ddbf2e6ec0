# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a simulated robot cannot show is refused in words."""

from __future__ import annotations

import pytest
from rclpy.node import Node

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.learn.environment import EnvError
from remote_inference.learn.environments.belt_arm.environment import SPEC
from remote_inference.learn.nodes.simulated_sensors import SimulatedSensors
from support.builders import contract_document


def test_a_contract_with_other_sensors_than_joints_and_cameras_is_refused(node: Node) -> None:
    document = contract_document()
    document["state"] = [
        {"topic": "imu", "type": "sensor_msgs/msg/Imu", "fields": ["orientation.w"]},
        *document["state"],
    ]
    contract = parse_document(document, Contract, "f")
    with pytest.raises(EnvError, match="imu: found sensor_msgs/msg/Imu, expected sensor_msgs/msg/JointState"):
        SimulatedSensors(node, contract, SPEC)
