# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Each source of a contract's state gets its reader, whose errors name the topic."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float32MultiArray, String

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.base.wire.arrays import SensorError, WireError
from remote_inference.base.wire.sensors.content_time import is_stamped, stamp_reader
from remote_inference.base.wire.sensors.state_readers import StateReader, make_state_readers
from support.builders import JOINTS, contract_document
from support.entry_point_files import install

IMU = {"topic": "imu", "type": "sensor_msgs/msg/Imu", "fields": ["orientation.w", "angular_velocity.z"]}
PAD = {"topic": "pad", "type": "std_msgs/msg/Float32MultiArray", "fields": ["data[0:3]"], "names": ["pad"]}
DYNAMIC = "control_msgs/msg/DynamicJointState"
DEGREES_OF_FREEDOM = "control_msgs/msg/MultiDOFStateStamped"


def make(*sources: dict[str, Any]) -> Contract:
    document = contract_document()
    document["state"] = [*document["state"], *sources]
    return parse_document(document, Contract, "f")


def reader_of(source: dict[str, Any]) -> StateReader:
    return make_state_readers(make(source))[1][1]


def refusal_of(reader: StateReader, message: Any) -> str:
    with pytest.raises(SensorError) as refused:
        reader.read(message)
    return str(refused.value)


def test_sources_are_read_in_the_contracts_order():
    messages = {
        "joint_states": JointState(name=["elbow", "shoulder"], position=[0.2, 0.1]),
        "imu": Imu(),
        "pad": Float32MultiArray(data=array("f", [1.0, 2.0, 3.0, 4.0])),
    }
    messages["imu"].angular_velocity.z = -1.0
    readers = make_state_readers(make(PAD, IMU))
    assert [topic for topic, _ in readers] == ["joint_states", "pad", "imu"]
    read = np.concatenate([reader.read(messages[topic]) for topic, reader in readers])
    assert read.tolist() == [0.1, 0.2, 1.0, 2.0, 3.0, 1.0, -1.0]


def test_what_is_wrong_with_a_message_is_said_with_its_topic():
    assert (
        refusal_of(reader_of(PAD), Float32MultiArray(data=[1.0]))
        == "pad: data[0:3]: found 1 items of data, expected 3 or more"
    )
    message = Imu()
    message.orientation.w = float("nan")
    assert refusal_of(reader_of(IMU), message) == "imu: found orientation.w = nan, expected finite values"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fields": ["orientation.q"]}, r"^state\.1\.fields\.0: found 'orientation\.q': no 'q' in geom"),
        ({"type": "nav_msgs/msg/Odometry"}, r"^state\.1\.type: .*'nav_msgs/msg/Odometry' is not installed"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place_in_the_contract(changes: dict[str, Any], words: str):
    with pytest.raises(WireError, match=words):
        make_state_readers(make({**IMU, **changes}))


# What a person may write for a source, right or wrong.
TYPES = (
    "geometry_msgs/msg/TwistStamped",
    "sensor_msgs/msg/Imu",
    "std_msgs/msg/Float32MultiArray",
    "a/msg/B",
    "Imu",
)
PATHS = (
    "twist.linear.x",
    "orientation.w",
    "orientation",
    "data",
    "data[0:3]",
    "data[2]",
    "x..y",
    "header",
    "",
)
WRITTEN = st.fixed_dictionaries(
    {"topic": st.sampled_from(["sensor", "joint_states", "a b"]), "type": st.sampled_from(TYPES)},
    optional={
        "fields": st.lists(st.sampled_from(PATHS), max_size=3),
        "names": st.lists(st.sampled_from(["a", "b", "shoulder", ""]), max_size=3),
        "field": st.sampled_from(["position", "torque"]),
        "scale": st.just([{"unit": "g", "factor": 0.001, "names": ["a"]}]),
    },
)


@settings(deadline=None, max_examples=300)
@given(WRITTEN)
def test_whatever_is_written_is_read_or_refused_in_words(source: dict[str, Any]):
    try:
        contract = make(source)
        _, (_, reader) = make_state_readers(contract)
    except (DocumentError, WireError) as error:
        problem = str(error)
        assert "state.1" in problem or problem.startswith("f: state names")
        assert "found" in problem or "missing" in problem or "not installed" in problem
        return
    package, _, name = source["type"].split("/")
    message = getattr(import_module(f"{package}.msg"), name)()
    assert len(contract.state_units.units) == len(contract.state_names)
    if any("data" in path for path in source["fields"]):  # of a new message there are none
        assert refusal_of(reader, message).startswith("sensor: data[")
    else:
        assert reader.read(message).shape == (len(contract.state[1].entries),)


def test_a_stamp_is_read_where_there_is_a_header():
    message = Imu()
    message.header.stamp.sec, message.header.stamp.nanosec = 2, 5
    assert is_stamped(Imu)
    assert stamp_reader(Imu)(message) == 2_000_000_005
    assert not is_stamped(Float32MultiArray)
    assert stamp_reader(Float32MultiArray)(Float32MultiArray()) == 0


# -- readers of whole messages ------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the path, to install into."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install_reader(site: Path, code: str, module: str, message_type: str = "std_msgs/msg/String") -> None:
    (site / f"{module}.py").write_text(dedent(code))
    declared = f"{message_type} = {module}:read"
    install(site, module.replace("_", "-"), declared, group="remote_inference.message_readers")


TEXT = {"topic": "scale", "type": "std_msgs/msg/String", "names": ["mass", "tare"]}


def test_a_strangers_reader_takes_its_message_type_whole(site: Path):
    with pytest.raises(DocumentError, match=r"state\.1: fields: missing, .* of std_msgs/msg/String, such as"):
        make(TEXT)
    install_reader(site, "def read(message): return [float(word) for word in message.data.split()]", "grams")
    contract = make(TEXT)
    assert contract.state_names == (*JOINTS, "mass", "tare")
    reader = make_state_readers(contract)[1][1]
    read = reader.read(String(data="2.5 0.5"))
    assert read.dtype == np.float64
    assert read.tolist() == [2.5, 0.5]
    for text, words in {
        "2.5": "scale: the reader returned 1, expected 2 numbers",
        "2.5 x": "scale: the reader failed: ValueError: could not convert string to float: 'x'",
        "nan 1": "scale: found mass = nan, expected finite values",
    }.items():
        assert refusal_of(reader, String(data=text)) == words


def test_a_strangers_reader_may_tell_numbers_by_name(site: Path):
    code = "def read(message): return {pair[0]: float(pair[2:]) for pair in message.data.split()}"
    install_reader(site, code, "pairs")
    reader = reader_of({**TEXT, "names": ["b", "a"]})
    assert reader.read(String(data="a=1 b=2 c=3")).tolist() == [2.0, 1.0]
    assert refusal_of(reader, String(data="a=1")) == "scale: found no b among a"


def test_fields_of_a_type_that_has_a_reader_can_still_be_named(site: Path):
    install_reader(site, "def read(message): return [0.0]", "zeros", "sensor_msgs/msg/Imu")
    message = Imu()
    message.orientation.w = 0.5
    assert reader_of({**IMU, "fields": ["orientation.w"]}).read(message).tolist() == [0.5]


def test_a_reader_without_names_one_that_does_not_import_and_one_of_two_are_refused(site: Path):
    install_reader(site, "import a_library_that_is_missing", "lacking")
    with pytest.raises(DocumentError, match=r"state\.1: names: missing, expected a name for each number"):
        make({key: value for key, value in TEXT.items() if key != "names"})
    with pytest.raises(WireError, match=r"^state\.1\.type: the reader of 'std_msgs/msg/String' of lacking 1"):
        make_state_readers(make(TEXT))
    install_reader(site, "def read(message): return []", "second")
    with pytest.raises(DocumentError, match=r"declared by lacking 1\.0 and second 1\.0"):
        make(TEXT)


# control_msgs is not among the wheels: objects with the fields of its messages stand for them.


@dataclass
class InterfaceValue:
    interface_names: list[str]
    values: list[float]


@dataclass
class DynamicJointState:
    joint_names: list[str] = field(default_factory=list)
    interface_values: list[InterfaceValue] = field(default_factory=list)


@dataclass
class SingleDOFState:
    name: str
    feedback: float
    error: float = 0.0


@dataclass
class MultiDOFStateStamped:
    dof_states: list[SingleDOFState]


def test_dynamic_joints_are_read_by_joint_and_interface_in_any_order():
    reader = reader_of(
        {"topic": "dynamic", "type": DYNAMIC, "names": ["wrist.effort", "wrist.position", "lid.open"]}
    )
    wrist, lid = InterfaceValue(["position", "effort"], [0.1, 3.0]), InterfaceValue(["open"], [1.0])
    assert reader.read(DynamicJointState(["wrist", "lid"], [wrist, lid])).tolist() == [3.0, 0.1, 1.0]
    turned = InterfaceValue(["effort", "position"], [4.0, 0.2])
    assert reader.read(DynamicJointState(["lid", "wrist"], [lid, turned])).tolist() == [4.0, 0.2, 1.0]
    assert (
        refusal_of(reader, DynamicJointState(["wrist"], [wrist]))
        == "dynamic: found no lid.open among wrist.position, wrist.effort"
    )
    assert refusal_of(reader, DynamicJointState(["wrist", "lid"], [wrist])).startswith(
        "dynamic: found 1 interface_values for 2 joint_names, expected one"
    )
    assert refusal_of(
        reader, DynamicJointState(["wrist"], [InterfaceValue(["position", "effort"], [0.1])])
    ).startswith("dynamic: found 1 values for 2 interface_names of wrist, expected")


def test_degrees_of_freedom_are_read_by_name_and_field_in_any_order():
    source = {"topic": "dofs", "type": DEGREES_OF_FREEDOM, "names": ["z.feedback", "x.error"]}
    reader = reader_of(source)
    states = [SingleDOFState("x", 1.0, 0.5), SingleDOFState("z", 2.0)]
    assert reader.read(MultiDOFStateStamped(states)).tolist() == [2.0, 0.5]
    assert reader.read(MultiDOFStateStamped(states[::-1])).tolist() == [2.0, 0.5]
    assert (
        refusal_of(reader, MultiDOFStateStamped(states[:1]))
        == "dofs: found no z.feedback among x.feedback, x.error"
    )
