# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A contract's state from any message: names, units and order, and which topics tell where the joints are."""

from __future__ import annotations

from typing import Any

import pytest

from remote_inference.base.admission import make_offer
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import DocumentError, parse_document, parse_json
from support.builders import JOINTS, contract_document

IMU = {"topic": "imu/data", "type": "sensor_msgs/msg/Imu", "fields": ["orientation.x", "orientation.w"]}
PAD = {"topic": "pad", "type": "std_msgs/msg/Float32MultiArray", "fields": ["data[2:4]"], "names": ["pad"]}


def make(*sources: dict[str, Any], kind: str = "position", **changes: Any) -> Contract:
    document = contract_document(kind) | changes
    document["state"] = [*document["state"], *sources]
    return parse_document(document, Contract, "f")


def test_sources_of_all_kinds_are_concatenated_in_the_contracts_order():
    contract = make(IMU, PAD)
    assert contract.state_names == (*JOINTS, "orientation.x", "orientation.w", "pad[0]", "pad[1]")
    assert contract.topics == ("joint_states", "imu/data", "pad", "front/image_raw")
    assert contract.sensor_types["imu/data"] == "sensor_msgs/msg/Imu"
    assert list(contract.state_sources) == ["state.0", "state.1", "state.2"]
    assert [source.topic for source in contract.joint_sources] == ["joint_states"]


def test_without_names_a_path_is_the_name_and_a_slice_has_its_indices():
    assert make({k: v for k, v in PAD.items() if k != "names"}).state_names[2:] == ("data[2]", "data[3]")


def test_rename_takes_the_names_of_fields_and_the_policy_sees_them_in_the_offer():
    document = contract_document()
    rename = document["rename"] | {"joints.orientation.w": "imu.w", "joints.pad[1]": "tip"}
    offer = make_offer(make(IMU, PAD, rename=rename))
    assert tuple(offer.state_names) == (*JOINTS, "orientation.x", "imu.w", "pad[0]", "tip")
    assert tuple(offer.state_units) == ("rad", "rad", "", "", "", ""), "nobody says the units of fields"


def test_a_scale_converts_a_field_one_item_or_a_whole_slice():
    grams = {"unit": "g", "factor": 1000.0}
    percent = {"unit": "percent", "names": ["orientation.x"], "range": [-1.0, 1.0]}
    whole = make({**IMU, "scale": [percent]}, {**PAD, "scale": [{**grams, "names": ["pad"]}]})
    assert whole.state_units.to_policy([1, 2, 0.5, 7, 3, 4]).tolist() == [1, 2, 75, 7, 3000, 4000]
    assert whole.policy_state_units[2:] == ("percent", "", "g", "g")
    item = make({**PAD, "scale": [{**grams, "names": ["pad[1]"]}]})
    assert item.state_units.to_policy([1, 2, 3, 4]).tolist() == [1, 2, 3, 4000]
    with pytest.raises(DocumentError, match=r"scale: found pad\[1\] and pad, which holds it"):
        make({**PAD, "scale": [{**grams, "names": ["pad"]}, {**grams, "names": ["pad[1]"]}]})


def test_degrees_of_an_action_are_still_those_of_its_joint_alone():
    """An entry of another message may have an action's name, and any unit."""
    named = {**IMU, "names": ["j1", "j2"], "scale": [{"unit": "degrees", "names": ["j1"]}]}
    assert make(named).policy_state_units == ("rad", "rad", "degrees", "")


def test_only_joint_states_say_where_the_joints_are():
    joints = contract_document()["state"][0]
    impostor = {**IMU, "names": list(JOINTS)}
    document = contract_document() | {"state": [impostor]}
    with pytest.raises(DocumentError, match="state holds no position of shoulder, elbow"):
        parse_document(document, Contract, "f")
    document["measured"] = joints
    contract = parse_document(document, Contract, "f")
    assert contract.measured_topics == ("joint_states",)
    assert contract.state_names == JOINTS
    document["measured"] = {**impostor, "topic": "other"}
    with pytest.raises(DocumentError, match=r"measured\.type: found sensor_msgs/msg/Imu, expected sens"):
        parse_document(document, Contract, "f")


def test_no_other_sensor_makes_the_positions_old():
    joints = contract_document()["state"][0]
    wheels = {**joints, "topic": "wheels", "names": ["wheel"]}
    speeds = {**joints, "topic": "speeds", "field": "velocity"}
    assert make(IMU, PAD, wheels, speeds).measured_topics == ("joint_states",)
    assert make(IMU, kind="velocity").measured_topics == ("joint_states",)


def test_a_contract_can_be_written_and_read_again():
    """A robot's journal holds it with every key, a replay's file with those that were set."""
    contract = make(IMU, PAD, measured=contract_document()["state"][0])
    for written in (contract.model_dump_json(), contract.model_dump_json(exclude_defaults=True)):
        assert parse_document(parse_json(written, "journal"), Contract, "journal") == contract


def test_a_topic_has_one_type_and_may_be_read_by_several_sources():
    more = {**IMU, "fields": ["angular_velocity.z"]}
    assert make(IMU, more).topics == ("joint_states", "imu/data", "front/image_raw")
    wrong = {**IMU, "type": "geometry_msgs/msg/PoseStamped", "fields": ["pose.position.x"]}
    with pytest.raises(DocumentError, match=r"state\.2\.type: found geometry_msgs/.* for imu/data"):
        make(IMU, wrong)
