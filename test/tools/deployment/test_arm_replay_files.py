# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What server and robot of an arm's replay read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract, load_contract
from remote_inference.base.documents.document import parse_document
from remote_inference.tools.deployment.arm_replay import CONTRACT_FILE, write_files
from support.builders import JOINTS, contract_document


def test_recorded_commands_are_replayed_at_the_rate_of_control(tmp_path: Path):
    """Ten commands were recorded for each row of the policy, and the replay has one row for each of them."""
    contract = parse_document(contract_document(ticks_per_row=10), Contract, "f")
    write_files(tmp_path, contract, np.zeros((3, len(JOINTS)), np.float32), "bag")
    robot = load_contract(tmp_path / CONTRACT_FILE)
    assert (robot.fps, robot.ticks_per_row) == (contract.fps, 1)


@pytest.mark.parametrize("has_measured", [False, True])
def test_recorded_commands_are_replayed_in_the_robots_units(has_measured: bool, tmp_path: Path):
    """A robot whose policy speaks degrees would take a recorded radian for a degree."""
    document = contract_document()
    degrees = [{"unit": "degrees", "names": list(JOINTS)}]
    if has_measured:
        document["measured"] = document["state"][0].copy()
    document["state"][0]["scale"] = document["actions"]["scale"] = degrees
    contract = parse_document(document, Contract, "f")
    write_files(tmp_path, contract, np.zeros((3, len(JOINTS)), np.float32), "bag")
    robot = load_contract(tmp_path / CONTRACT_FILE)
    assert robot.action_units.to_robot([1.0, 1.0]).tolist() == [1.0, 1.0]
    assert robot.state_units.to_policy([1.0, 1.0]).tolist() == [1.0, 1.0]
    assert robot.actions.limits == contract.actions.limits


def test_a_replay_waits_for_no_other_sensor_than_the_joints(tmp_path: Path):
    document = contract_document()
    imu = {"topic": "imu", "type": "sensor_msgs/msg/Imu", "fields": ["orientation.w"]}
    document["state"] = [imu, *document["state"]]
    contract = parse_document(document, Contract, "f")
    write_files(tmp_path, contract, np.zeros((3, len(JOINTS)), np.float32), "bag")
    robot = load_contract(tmp_path / CONTRACT_FILE)
    assert robot.topics == ("joint_states",)
    assert robot.state_names == JOINTS
