# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The ready contracts of real robots: their sources are read and their commands written as messages.

A type that is not installed here is skipped by its name. What stands in for such types has the same fields.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TwistWithCovariance
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract, load_contract
from remote_inference.base.contract.state_source import StateSource
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.commands import make_command_writer, make_sink_reader
from remote_inference.base.wire.message_types import message_class
from remote_inference.base.wire.sensors.state_readers import make_state_reader

FOLDER = Path(__file__).parents[3] / "config" / "robots"
CONTRACTS = {
    path.name.partition(".")[0]: load_contract(path) for path in sorted(FOLDER.glob("*.contract.yaml"))
}
STAMP = Time(sec=7, nanosec=8)
COMMANDS = [
    pytest.param(contract, sink, id=f"{robot}-{sink.topic.replace('/', '_')}")
    for robot, contract in CONTRACTS.items()
    for sink in contract.commands
]
SOURCES = [
    pytest.param(source, place, id=f"{robot}-{place}")
    for robot, contract in CONTRACTS.items()
    for place, source in contract.state_sources.items()
]


def skip_what_is_not_installed(type_name: str) -> None:
    try:
        message_class(type_name)
    except WireError:
        pytest.skip(f"{type_name} is not installed here: not checked")


def values_of(contract: Contract) -> np.ndarray:
    """Return a command with another number for each action, which a float holds exactly."""
    return np.arange(1, contract.action_dim + 1) / 64.0


def set_number(message: Any, path: str, value: float) -> None:
    *way, last = path.split(".")
    for name in way:
        message = getattr(message, name)
    setattr(message, last, value)


def state_message(source: StateSource) -> tuple[Any, list[float]]:
    """Return a message as the robot's driver sends it, and the numbers that the contract reads."""
    values = [number / 64.0 for number in range(1, len(source.entries) + 1)]
    if source.is_joints:  # in an order of its own, beside a joint that nobody asked for
        names, positions = [*source.names][::-1], values[::-1]
        return JointState(name=["other", *names], position=[9.0, *positions]), values
    message = message_class(source.type)()
    for path, value in zip(source.fields, values, strict=True):
        set_number(message, path, value)
    return message, values


@pytest.mark.parametrize(("contract", "sink"), COMMANDS)
def test_a_command_arrives_with_each_action_where_the_controller_looks(
    contract: Contract, sink: CommandSink
) -> None:
    skip_what_is_not_installed(sink.type)
    command = values_of(contract)
    message = make_command_writer(sink, contract).message(command[np.newaxis], STAMP)
    arrived = deserialize_message(serialize_message(message), type(message))
    expected = [command[contract.actions.names.index(name)] for name in sink.names]
    assert make_sink_reader(sink, contract).read(arrived).tolist() == expected


@pytest.mark.parametrize(("source", "place"), SOURCES)
def test_a_drivers_message_is_read_in_the_contracts_order(source: StateSource, place: str) -> None:
    skip_what_is_not_installed(source.type)
    message, values = state_message(source)
    assert make_state_reader(source, place).read(message).tolist() == values


def test_the_base_of_stretch_is_not_stepped_by_the_message_of_its_arm() -> None:
    contract = CONTRACTS["stretch3"]
    message = make_command_writer(contract.commands[0], contract).message(
        values_of(contract)[np.newaxis], STAMP
    )
    assert message.data.tolist() == [*values_of(contract)[:8], 0.0, 0.0]


# -- of the same shape as the types that are not among the wheels --------------------------------------------


class Odometry:
    """The field of nav_msgs/msg/Odometry that the contracts read."""

    def __init__(self) -> None:
        self.twist = TwistWithCovariance()

    @classmethod
    def get_fields_and_field_types(cls) -> dict[str, str]:
        return {"twist": "geometry_msgs/TwistWithCovariance"}


class JointGroupCommand:
    """As interbotix_xs_msgs/msg/JointGroupCommand."""

    fields: ClassVar = {"name": "string", "cmd": "sequence<float>"}

    def __init__(self) -> None:
        self.name = ""
        self.cmd: Any = []

    @classmethod
    def get_fields_and_field_types(cls) -> dict[str, str]:
        return cls.fields


class JointSingleCommand(JointGroupCommand):
    """As interbotix_xs_msgs/msg/JointSingleCommand."""

    fields: ClassVar = {"name": "string", "cmd": "float"}


def stand_in(monkeypatch: pytest.MonkeyPatch, package: str, *classes: type) -> None:
    module = ModuleType(f"{package}.msg")
    for kind in classes:
        setattr(module, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, package, ModuleType(package))
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize("robot", ["lekiwi", "stretch3", "turtlebot4"])
def test_the_speeds_of_a_base_are_read_from_a_message_of_odometrys_shape(
    robot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "nav_msgs", Odometry)
    source = CONTRACTS[robot].state[-1]
    message, values = state_message(source)
    assert make_state_reader(source, "state.1").read(message).tolist() == values


def test_alohas_arms_and_grippers_get_commands_of_their_drivers_shape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in(monkeypatch, "interbotix_xs_msgs", JointGroupCommand, JointSingleCommand)
    contract = CONTRACTS["aloha"]
    command = values_of(contract)
    found = {}
    for sink in contract.commands:
        message = make_command_writer(sink, contract).message(command[np.newaxis], STAMP)
        found[sink.topic] = (message.name, message.cmd)
    assert found == {
        "follower_left/commands/joint_group": ("arm", command[:6].tolist()),
        "follower_left/commands/joint_single": ("gripper", command[6]),
        "follower_right/commands/joint_group": ("arm", command[7:13].tolist()),
        "follower_right/commands/joint_single": ("gripper", command[13]),
    }
