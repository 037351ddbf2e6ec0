# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The commands of a bag become rows in the rhythm of the control ticks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.timeline.robot_bag import RobotBag
from remote_inference.bags.timeline.timeline_reader import RecordedRows, read_commands
from remote_inference.base.contract.contract import load_contract, parse_contract
from remote_inference.tools.deployment.arm_replay import CONTRACT_FILE, write_files
from remote_inference.tools.deployment.bringup import DeploymentError
from support.builders import FPS
from support.recording.asked_run import NS, contract_text, write_asked_run

TICKS = 147  # of the bag


def read(path: Path, text: str = "") -> RecordedRows:
    with BagReader(path) as bag:
        return read_commands(RobotBag(bag, NS, parse_contract(text or contract_text(), "test")))


def change_ticks(*wanted: int, **fields: Any) -> Any:
    """Return a change of the executed actions with these numbers; without fields they are lost."""

    def change(topic: str, number: int, message: Any) -> Any:
        if topic != "executed" or number not in wanted:
            return message
        for name, value in fields.items():
            setattr(message, name, value)
        return message if fields else None

    return change


def test_every_tick_is_a_row(tmp_path: Path):
    found = read(write_asked_run(tmp_path / "bag"))
    assert (found.rows.shape, found.rows.dtype, found.held, found.left_out) == ((TICKS, 2), np.float32, 0, 0)
    assert found.rows[0] == pytest.approx([0.12, -0.09])


@pytest.mark.parametrize("fields", [{}, {"action": []}, {"shadow": True}])
def test_a_tick_without_a_command_repeats_the_one_before(fields: dict[str, Any], tmp_path: Path):
    whole = read(write_asked_run(tmp_path / "whole")).rows
    found = read(write_asked_run(tmp_path / "bag", change=change_ticks(15, 16, **fields)))
    assert (found.held, found.left_out) == (2, 0)
    np.testing.assert_array_equal(found.rows[:15], whole[:15])
    np.testing.assert_array_equal(found.rows[15:17], whole[[14, 14]])
    np.testing.assert_array_equal(found.rows[17:], whole[17:])


def test_a_long_time_without_commands_is_shortened_and_none_begins_or_ends_the_rows(tmp_path: Path):
    silent = [*range(5), *range(40, 100), *range(140, TICKS)]
    found = read(write_asked_run(tmp_path / "bag", change=change_ticks(*silent, action=[])))
    assert (found.held, found.left_out) == (FPS, 60 - FPS)
    assert len(found.rows) == TICKS - len(silent) + FPS


def test_a_node_that_began_anew_leaves_no_gap(tmp_path: Path):
    def change(topic: str, number: int, message: Any) -> Any:
        if topic == "executed" and number >= 50:
            message.tick -= 1040
        return message

    assert len(read(write_asked_run(tmp_path / "bag", change=change)).rows) == TICKS


@pytest.mark.parametrize(
    ("change", "text", "expected"),
    [
        (change_ticks(*range(TICKS), action=[]), "", "found no executed action, expected commands to repeat"),
        (change_ticks(7, action=[0.1, float("inf")]), "", "tick 1010: found"),
        (change_ticks(), contract_text().replace("elbow", "wrist"), "found shoulder, elbow, expected"),
    ],
)
def test_commands_that_cannot_be_repeated_are_refused(change: Any, text: str, expected: str, tmp_path: Path):
    with pytest.raises(BagError) as caught:
        read(write_asked_run(tmp_path / "bag", change=change), text)
    assert expected in str(caught.value)


def test_the_replay_s_contract_shows_the_joints_that_are_measured_and_no_camera(tmp_path: Path):
    measured = {
        "topic": "encoders",
        "type": "sensor_msgs/msg/JointState",
        "field": "position",
        "names": ["a", "b"],
    }
    velocities = {"topic": "joint_states", "type": "sensor_msgs/msg/JointState", "field": "velocity"}
    state = [{**velocities, "names": ["shoulder", "elbow"]}]
    contract = parse_contract(contract_text(measured=measured, state=state), "test")
    write_files(tmp_path, contract, np.zeros((3, 2), np.float32), "run_1")
    found = load_contract(tmp_path / CONTRACT_FILE)
    assert (found.state_names, found.images) == (("a", "b"), {})
    assert (found.actions, found.commands, found.measured) == (
        contract.actions,
        contract.commands,
        contract.measured,
    )
    other = parse_contract(contract_text().replace('"kind": "position"', '"kind": "effort"'), "test")
    with pytest.raises(DeploymentError, match="found effort actions, expected position actions"):
        write_files(tmp_path, other, np.zeros((3, 2), np.float32), "run_1")
