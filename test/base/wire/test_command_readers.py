# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A person's commands are read in the contract's order, and refused precisely."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.operator_inputs import TakeoverInput
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import parse_document
from remote_inference.base.wire.arrays import SensorError
from remote_inference.base.wire.commands import make_command_reader
from remote_inference.base.wire.commands.writer import CommandReader
from support.builders import contract_document, make_contract

ARRAY = "std_msgs/msg/Float64MultiArray"


def reader(kind: str, type_name: str) -> CommandReader:
    return make_command_reader(TakeoverInput(topic="teleop", type=type_name), make_contract(kind))


@pytest.mark.parametrize("kind", ["position", "velocity", "effort"])
def test_a_joint_state_is_read_by_name_from_the_field_of_the_actions(kind: str):
    message = JointState(name=["gripper", "elbow", "shoulder"], **{kind: [9.0, 0.2, 0.1]})
    assert reader(kind, JOINT_STATE).read(message).tolist() == [0.1, 0.2]


def test_a_person_s_switch_is_read_as_a_position():
    document = contract_document("velocity")
    limit = {"kind": "switch", "min": 0.0, "max": 1.0, "closes_above": 0.6, "opens_below": 0.4}
    document["actions"]["limits"]["elbow"] = limit
    document["commands"] = [{"topic": name, "type": ARRAY, "names": [name]} for name in ("shoulder", "elbow")]
    contract = parse_document(document, Contract, "f")
    takeover = TakeoverInput(topic="teleop", type=JOINT_STATE)
    message = JointState(name=["shoulder", "elbow"], velocity=[0.1, 7.0], position=[8.0, 0.9])
    assert make_command_reader(takeover, contract).read(message).tolist() == [0.1, 0.9]


def test_an_array_is_read_in_the_order_of_the_actions():
    assert contract_document()["actions"]["names"] == ["shoulder", "elbow"]
    read = reader("velocity", ARRAY).read(Float64MultiArray(data=array("d", [0.1, 0.2])))
    assert read.dtype == np.float64
    assert read.tolist() == [0.1, 0.2]


@pytest.mark.parametrize(
    ("type_name", "message", "words"),
    [
        (ARRAY, Float64MultiArray(data=array("d", [0.1])), "teleop: found 1 values, expected 2"),
        (ARRAY, Float64MultiArray(data=array("d", [0.1, np.nan])), "teleop: found elbow = nan"),
        (JOINT_STATE, JointState(name=["elbow"], position=[0.1]), "teleop: position: found no shoulder"),
    ],
)
def test_a_command_that_does_not_fit_is_refused(type_name: str, message: object, words: str):
    with pytest.raises(SensorError, match=words):
        reader("position", type_name).read(message)
