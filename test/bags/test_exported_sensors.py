# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Each exported tick has what every sensor had said by then, or the export says why not."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from geometry_msgs.msg import Point, Pose, PoseArray
from sensor_msgs.msg import BatteryState, Imu
from std_msgs.msg import Float32MultiArray

from remote_inference.bags.export.export import TickReader, export
from remote_inference.bags.export.format import ControlTick, CsvTable, Selection
from remote_inference.bags.export.lerobot_v3 import LeRobotDataSet
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.timeline.robot_bag import open_robot
from remote_inference.bags.timeline.timeline_reader import load_timeline
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from support.builders import JOINTS, contract_document
from support.recording.synthetic_run import NS, Recording

OWN = {
    "executed": "ExecutedAction",
    "state": "ClientState",
    "chunk": "ActionChunk",
    "observation": "Observation",
}


def ticks_of(path: Path, contract: Contract) -> list[ControlTick]:
    with open_robot(path, NS, contract) as robot:
        return list(TickReader(robot, images=False).ticks())


SOURCES = {
    "imu": ("sensor_msgs/msg/Imu", ["orientation.w", "orientation_covariance[7:9]"]),
    "pad": ("std_msgs/msg/Float32MultiArray", ["data[1:3]"]),
    "battery": ("sensor_msgs/msg/BatteryState", ["present", "voltage"]),
    "marks": ("geometry_msgs/msg/PoseArray", ["poses[1].position.y"]),
}


def make_contract(**changes: dict[str, Any]) -> Contract:
    document = contract_document()
    others = [
        {"topic": topic, "type": kind, "fields": fields, **changes.get(topic, {})}
        for topic, (kind, fields) in SOURCES.items()
    ]
    document |= {"state": [*others[:2], *document["state"], *others[2:]], "images": {}, "rename": {}}
    return parse_document(document, Contract, "f")


def record(
    folder: Path, leave_out: str = "", pad: tuple[float, ...] = (1.0, 2.0, 3.0), last_w: float = -0.5
) -> Path:
    own = {f"{NS}/remote_inference/{kind}": f"remote_inference/msg/{name}" for kind, name in OWN.items()}
    sensors = {f"{NS}/{topic}": kind for topic, (kind, _) in SOURCES.items()}
    recording = Recording({**own, f"{NS}/joint_states": "sensor_msgs/msg/JointState", **sensors}, JOINTS)
    recording.executed(0, 0, [0.0, 0.0])
    imu = Imu()
    imu.orientation.w, imu.orientation_covariance[8] = 0.5, 9.0
    recording.joints(10, [0.25, -0.5], list(JOINTS))
    recording.add("imu", 11, imu)
    recording.add("battery", 12, BatteryState(present=True, voltage=12.5))
    recording.add("marks", 13, PoseArray(poses=[Pose(), Pose(position=Point(y=4.0))]))
    recording.executed(15, 1, [0.0, 0.0])
    recording.add("pad", 20, Float32MultiArray(data=array("f", pad)))
    recording.executed(50, 2, [0.0, 0.0])
    imu.orientation.w = last_w
    recording.add("imu", 60, imu)
    recording.executed(100, 3, [0.0, 0.0])
    return recording.write(folder / "bag", leave_out)


def test_each_tick_has_the_newest_numbers_of_every_sensor_in_the_contracts_order(tmp_path: Path):
    first, second, third, fourth = ticks_of(record(tmp_path), make_contract())
    assert first.state is None
    assert second.state is None, "the pad has not spoken"
    assert third.state is not None
    assert third.state.tolist() == [0.5, 0.0, 9.0, 2.0, 3.0, 0.25, -0.5, 1.0, 12.5, 4.0]
    assert fourth.state is not None
    assert fourth.state.tolist() == [-0.5, *third.state[1:]]


@pytest.mark.parametrize(
    ("changes", "recorded", "words"),
    [
        ({}, {"leave_out": "pad"}, r"/bag: found no /arm/pad, expected .* these sensors were not recorded"),
        ({}, {"leave_out": "joint_states"}, r"/bag: found no /arm/joint_states, .* joints were not recorded"),
        ({"pad": {"type": "nav_msgs/msg/Path"}}, {}, r"/bag: contract: state\.1\.type: .* is not installed"),
        ({"imu": {"fields": ["w"]}}, {}, r"/bag: contract: state\.0\.fields\.0: found 'w': no 'w' in "),
    ],
    ids=["silent", "no joints", "type", "field"],
)
def test_what_cannot_be_exported_is_said_with_the_bag_and_the_sensor(
    tmp_path: Path, changes: dict[str, Any], recorded: dict[str, Any], words: str
):
    path = record(tmp_path, **recorded)
    with pytest.raises(BagError, match=words):
        ticks_of(path, make_contract(**changes))


@pytest.mark.parametrize(
    ("pad", "words"),
    [
        ((1.0,), "pad: data[1:3]: found 1 items of data, expected 3 or more"),
        ((1.0, float("nan"), 2.0), "pad: found data[1] = nan, expected finite values"),
    ],
)
def test_a_message_that_cannot_be_read_costs_its_ticks_alone_and_is_told(
    tmp_path: Path, pad: tuple[float, ...], words: str
):
    """The robot passed over it, too."""
    path, contract = record(tmp_path, pad=pad), make_contract()
    assert [tick.state for tick in ticks_of(path, contract)] == [None] * 4
    with CsvTable(tmp_path / "ticks.csv", contract, images=False) as table:
        export([path], table, Selection())
        assert table.written.notes == [f"{path}: 2 ticks have no state, the first one for: {words}"]


def test_a_tick_without_an_orientation_is_left_out_of_a_data_set(tmp_path: Path):
    """Whoever learned from it would learn from NaN."""
    quaternion = [f"orientation.{axis}" for axis in "xyzw"]
    rotation = {"form": "rotation_vector", "names": ["rx", "ry", "rz"], "quaternion": quaternion}
    contract = make_contract(imu={"fields": quaternion, "rotations": [rotation]})
    with LeRobotDataSet(tmp_path / "data", contract, images=False) as data_set:
        for tick in ticks_of(record(tmp_path, last_w=0.0), contract):
            data_set.add(tick)
        data_set.end_episode()
    assert data_set.written.left_out == {"before each sensor was heard": 2, "a quaternion of length 0": 1}
    (state,) = pq.read_table(tmp_path / "data/data/chunk-000/file-000.parquet")["observation.state"]
    assert state.as_py() == [0.0, 0.0, 0.0, 2.0, 3.0, 0.25, -0.5, 1.0, 12.5, 4.0]


def test_a_timeline_draws_the_joints_alone(tmp_path: Path):
    """Its topics are those of JointStates, whatever names other sensors' fields have."""
    impostor = {"names": [JOINTS[0], "b"]}
    document = json.loads(make_contract().model_dump_json(exclude_defaults=True))
    document["measured"] = document["state"].pop(2)
    document["state"][0] |= impostor
    contract = parse_document(document, Contract, "f")
    timeline = load_timeline(record(tmp_path), contract=contract)
    assert {joint.topic for joint in timeline.joints} == {f"{NS}/joint_states"}
    assert np.concatenate([joint.value for joint in timeline.joints]).tolist() == [0.25, -0.5]
