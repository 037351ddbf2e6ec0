# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a contract may say of commands in the fields of any message."""

from __future__ import annotations

from typing import Any

import pytest

from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import DocumentError, parse_document
from support.builders import JOINTS, contract_document

FIELDS = {"twist.linear.x": JOINTS[0], "twist.angular.z": JOINTS[1]}
BASE = {"topic": "cmd_vel", "type": "geometry_msgs/msg/TwistStamped", "fields": FIELDS}


def load(**changes: Any) -> CommandSink:
    document = contract_document("velocity") | {"commands": [BASE | changes]}
    return parse_document(document, Contract, "base.contract.yaml").commands[0]


def test_the_fields_name_the_actions_of_a_controller_that_needs_no_horizon():
    sink = load()
    assert sink.names == JOINTS
    assert not sink.interface.takes_horizon
    assert sink.interface.kinds == ("position", "velocity", "effort", "switch", "pose")


def test_a_contract_that_was_written_down_again_is_the_same():
    contract = parse_document(contract_document("velocity") | {"commands": [BASE]}, Contract, "base")
    assert parse_document(contract.model_dump(mode="json"), Contract, "base") == contract


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"names": [JOINTS[0]]},
            "names: found shoulder beside fields, expected none",
        ),
        ({"fields": {}}, "expected the actions that the controller takes"),
        ({"fields": {}, "names": list(JOINTS)}, "or `fields`, for any message type"),
        (
            {"fields": {"twist.linear.x": JOINTS[0], "twist.linear.y": JOINTS[0]}},
            "shoulder found more than once",
        ),
        (
            {"fields": {"data[0]": JOINTS[0], "data[00]": JOINTS[1]}},
            "fields: found data[00] and data[0]",
        ),
        ({"constant": {"twist.angular.z": 0.0}}, "constant: found twist.angular.z and twist.angular.z"),
        ({"fields": {"data[0:2]": JOINTS[0], "data[2]": JOINTS[1]}}, "fields: found the slice 'data[0:2]'"),
        ({"fields": {"twist..x": JOINTS[0]}}, "found 'twist..x', expected names of fields with dots between"),
        (
            {"fields": {}, "constant": {"x": 1}, "names": list(JOINTS)},
            "constant: found",
        ),
        ({"type": "TwistStamped"}, "found 'TwistStamped', expected a message type"),
    ],
)
def test_what_contradicts_itself_is_refused_with_its_key(changes: dict[str, Any], problem: str):
    with pytest.raises(DocumentError) as refusal:
        load(**changes)
    assert problem in str(refusal.value)
