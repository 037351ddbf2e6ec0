# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a contract may say of commands that are goals of an action server."""

from __future__ import annotations

from typing import Any

import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.controller_stop import stop_controller
from remote_inference.base.documents.document import DocumentError, parse_document
from support.builders import FLOAT64_MULTI_ARRAY, JOINTS, contract_document

ARM = {"topic": "commands", "type": FLOAT64_MULTI_ARRAY, "names": [JOINTS[0]]}
GRIPPER = {
    "action": "gripper_controller/gripper_cmd",
    "type": "control_msgs/action/ParallelGripperCommand",
    "fields": {"command.position[0]": JOINTS[1]},
    "constant": {"command.name[0]": "finger_joint"},
}


def load(kind: str = "position", **changes: Any) -> Contract:
    gripper = {key: value for key, value in {**GRIPPER, **changes}.items() if value is not None}
    return parse_document(contract_document(kind) | {"commands": [ARM, gripper]}, Contract, "gripper")


def test_an_action_takes_the_actions_of_its_fields_and_is_known_by_its_name():
    contract = load(min_change=0.01, max_rate_hz=2.0)
    (arm,), (gripper,) = contract.topic_commands, contract.action_commands
    assert (arm.destination, gripper.destination) == ("commands", "gripper_controller/gripper_cmd")
    assert (gripper.names, gripper.topic) == ((JOINTS[1],), "")
    assert not gripper.interface.takes_horizon


def test_a_contract_that_was_written_down_again_is_the_same():
    contract = load()
    assert parse_document(contract.model_dump(mode="json"), Contract, "gripper") == contract


def test_nothing_stops_an_action_server_which_keeps_its_last_goal():
    contract = load()
    stop = stop_controller(contract, contract.action_commands[0], {})
    assert (stop.action, stop.failed) == (None, False)
    assert stop.topic == "gripper_controller/gripper_cmd"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"topic": "gripper"}, "action: found gripper_controller/gripper_cmd beside topic gripper"),
        ({"action": None}, "topic: missing, expected it, or `action`"),
        ({"fields": None, "constant": None, "names": [JOINTS[1]]}, "fields: missing, expected the goal's"),
        ({"controller": "gripper_controller"}, "controller: found with action"),
        ({"type": "control_msgs/msg/GripperCommand"}, "type: found 'control_msgs/msg/GripperCommand'"),
        ({"action": "no//name"}, "found '//'"),
        ({"min_change": -0.1}, "min_change"),
        ({"max_rate_hz": 0.0}, "max_rate_hz"),
        ({"kind": "velocity"}, "expected actions of kind position, found velocity"),
        ({"kind": "effort"}, "expected actions of kind position, found effort"),
    ],
)
def test_what_an_action_cannot_have_is_refused_with_its_key(changes: dict[str, Any], problem: str):
    with pytest.raises(DocumentError) as refusal:
        load(**changes)
    assert problem in str(refusal.value)


@pytest.mark.parametrize("key", ["min_change", "max_rate_hz"])
def test_a_topic_has_no_keys_of_goals(key: str):
    document = contract_document() | {"commands": [{**ARM, "names": list(JOINTS), key: 1.0}]}
    with pytest.raises(DocumentError, match=f"{key}: found with topic commands"):
        parse_document(document, Contract, "gripper")


def test_two_commands_of_one_name_are_refused():
    document = contract_document() | {"commands": [{**ARM, "topic": GRIPPER["action"]}, GRIPPER]}
    with pytest.raises(DocumentError, match="gripper_controller/gripper_cmd found more than once"):
        parse_document(document, Contract, "gripper")
