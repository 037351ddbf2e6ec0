# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A person's commands are read in the contract's order, and refused precisely."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from geometry_msgs.msg import TwistStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.operator_inputs import TakeoverInput
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import parse_document
from remote_inference.base.wire.arrays import SensorError, WireError
from remote_inference.base.wire.commands import make_takeover_readers
from remote_inference.base.wire.commands.writer import CommandReader
from support.builders import contract_document, make_contract

ARRAY = "std_msgs/msg/Float64MultiArray"


def reader(kind: str, type_name: str) -> CommandReader:
    takeover = TakeoverInput(topic="teleop", type=type_name)
    return make_takeover_readers(takeover, make_contract(kind))[0]


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
    assert make_takeover_readers(takeover, contract)[0].read(message).tolist() == [0.1, 0.9]


def test_each_topic_of_a_person_is_read_for_its_own_actions():
    joystick = {"topic": "joystick", "type": "geometry_msgs/msg/TwistStamped"}
    also = [{**joystick, "fields": {"twist.angular.z": "elbow"}}]
    document = contract_document() | {"takeover": {"topic": "leader", "type": JOINT_STATE, "also": also}}
    contract = parse_document(document, Contract, "f")
    assert contract.takeover is not None
    leader, stick = make_takeover_readers(contract.takeover, contract)
    assert (leader.topic, stick.topic) == ("leader", "joystick")
    assert leader.read(JointState(name=["gripper", "shoulder"], position=[9.0, 0.1])).tolist() == [0.1]
    message = TwistStamped()
    message.twist.angular.z = -0.3
    assert stick.read(message).tolist() == [-0.3]
    also[0]["fields"] = {"twist.angular.q": "elbow"}
    contract = parse_document(document, Contract, "f")
    assert contract.takeover is not None
    with pytest.raises(WireError, match=r"^takeover\.also\.0\.fields\.0: found .*q"):
        make_takeover_readers(contract.takeover, contract)


def test_a_button_drives_no_joint():
    """Released, it would be the joint's lower limit: full speed backwards."""
    also = [{"topic": "button", "type": "std_msgs/msg/Bool", "fields": {"data": "elbow"}}]
    document = contract_document("velocity")
    document["takeover"] = {"topic": "leader", "type": "std_msgs/msg/Float64MultiArray", "also": also}
    contract = parse_document(document, Contract, "button.contract.yaml")
    assert contract.takeover is not None
    with pytest.raises(WireError, match="found 'data', a boolean, for elbow, expected a number"):
        make_takeover_readers(contract.takeover, contract)


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
