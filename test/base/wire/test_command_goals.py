# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A command to an action server is the goal of its type, written field by field."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState

from remote_inference.action import RunPolicy
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.commands import make_command_writers, make_sink_reader
from support.builders import FLOAT64_MULTI_ARRAY, JOINTS, contract_document

ARM = {"topic": "commands", "type": FLOAT64_MULTI_ARRAY, "names": [JOINTS[0]]}
RUN = {"action": "run", "type": "remote_inference/action/RunPolicy", "fields": {"max_duration_s": JOINTS[1]}}


class ParallelGripperGoal:
    """The goal of control_msgs/action/ParallelGripperCommand, as rosidl would generate it."""

    def __init__(self) -> None:
        self.command = JointState()

    @classmethod
    def get_fields_and_field_types(cls) -> dict[str, str]:
        return {"command": "sensor_msgs/JointState"}


@pytest.fixture
def control_msgs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with the action of that name."""
    package, actions = ModuleType("control_msgs"), ModuleType("control_msgs.action")
    actions.ParallelGripperCommand = SimpleNamespace(Goal=ParallelGripperGoal)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "control_msgs", package)
    monkeypatch.setitem(sys.modules, "control_msgs.action", actions)


def load(**changes: Any) -> Contract:
    document = contract_document() | {"commands": [ARM, {**RUN, **changes}]}
    return parse_document(document, Contract, "gripper")


def write(contract: Contract) -> Any:
    return make_command_writers(contract)[1].message(np.array([[0.125, 0.75], [0.0, 0.0]]), Time())


def test_a_goal_holds_the_action_and_the_constants():
    goal = write(load(constant={"task": "close"}))
    assert isinstance(goal, RunPolicy.Goal)
    assert (goal.max_duration_s, goal.task) == (0.75, "close")


@pytest.mark.usefixtures("control_msgs")
def test_the_goal_of_a_parallel_gripper_names_its_joint_and_has_one_position():
    contract = load(
        type="control_msgs/action/ParallelGripperCommand",
        fields={"command.position[0]": JOINTS[1]},
        constant={"command.name[0]": "finger_joint", "command.effort[0]": 20.0},
    )
    goal = write(contract)
    assert isinstance(goal, ParallelGripperGoal)
    assert list(goal.command.name) == ["finger_joint"]
    assert (list(goal.command.position), list(goal.command.effort)) == ([0.75], [20.0])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"type": "no_msgs/action/Close"}, "type: action type 'no_msgs/action/Close' is not installed"),
        ({"type": "remote_inference/action/ActionChunk"}, "type: action type"),
        ({"fields": {"position": JOINTS[1]}}, "fields: found 'position': no 'position' in remote_inference/"),
        ({"fields": {"task": JOINTS[1]}}, "fields: found 'task', a string, expected a float or double"),
        ({"constant": {"max_duration": 1.0}}, "constant: found 'max_duration'"),
    ],
)
def test_what_the_goal_does_not_have_is_refused_with_its_key(changes: dict[str, Any], problem: str):
    with pytest.raises(WireError) as refusal:
        write(load(**changes))
    assert str(refusal.value).startswith(f"commands.1.{problem}")


def test_no_simulated_controller_takes_goals():
    with pytest.raises(WireError, match="found an action, expected a command by topic"):
        make_sink_reader(load().commands[1], load())
