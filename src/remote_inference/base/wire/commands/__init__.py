# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands to the robot's controllers, and those of a person: one class for each message type."""

from __future__ import annotations

import pkgutil
from array import array
from collections.abc import Sequence

import numpy as np
from builtin_interfaces.msg import Duration, Time
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, Header
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from remote_inference.base.contract.action_kinds import ACTION_KINDS, Kind
from remote_inference.base.contract.commands.sink import (
    COMMAND_INTERFACES,
    TAKEOVER_INTERFACES,
    CommandInterface,
    CommandSink,
)
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.operator_inputs import TakeoverInput, TakeoverPart
from remote_inference.base.contract.state_source import StateSource
from remote_inference.base.wire.arrays import WireError, float64_field, naming
from remote_inference.base.wire.commands.fields import FieldCommandReader, FieldWriter
from remote_inference.base.wire.commands.writer import CommandReader, CommandWriter
from remote_inference.base.wire.sensors.joint_merge import JointReader

# -- Commands as sensor_msgs/JointState ------------------------------------------------------------------


class JointStateWriter(CommandWriter):
    """For simulators and drivers that take a JointState: the field of the actions' kind is set."""

    message_type = JointState

    def _write(self, rows: NDArray[np.float64], stamp: Time) -> JointState:
        message = JointState(header=Header(stamp=stamp), name=list(self._sink.joints))
        setattr(message, ACTION_KINDS[self.kind].field, float64_field(rows[0]))
        return message


class JointStateReader(CommandReader):
    """Joints by the names of the actions, others are ignored.

    Each is read from the field of its kind, a switch as a position.
    """

    message_type = JointState

    def __init__(self, topic: str, kinds: Sequence[Kind], names: Sequence[str]) -> None:
        super().__init__(topic, kinds, names)
        self._joints: list[tuple[JointReader, list[int]]] = []  # and the places of each reader's joints
        fields = [ACTION_KINDS[kind].field for kind in kinds]
        for field in dict.fromkeys(fields):
            places = [place for place, of_one in enumerate(fields) if of_one == field]
            joints = tuple(self._names[place] for place in places)
            source = StateSource(topic=topic, type="sensor_msgs/msg/JointState", field=field, names=joints)
            self._joints.append((JointReader(source), places))

    def read(self, message: JointState) -> NDArray[np.float64]:
        values = np.empty(len(self._names))
        for reader, places in self._joints:
            values[places] = reader.read(message)
        return values


# -- Commands as std_msgs/Float64MultiArray --------------------------------------------------------------


class ArrayWriter(CommandWriter):
    """For ros2_control's forward_command_controller and its relatives."""

    message_type = Float64MultiArray

    def _write(self, rows: NDArray[np.float64], stamp: Time) -> Float64MultiArray:  # noqa: ARG002
        return Float64MultiArray(data=float64_field(rows[0]))


class ArrayReader(CommandReader):
    """One value for each name."""

    message_type = Float64MultiArray

    def read(self, message: Float64MultiArray) -> NDArray[np.float64]:
        names = self._names
        if len(message.data) != len(names):
            raise self._error(f"found {len(message.data)} values, expected {len(names)}: {', '.join(names)}")
        return self._require_finite(np.frombuffer(message.data, np.float64))


class TrajectoryWriter(CommandWriter):
    """For ros2_control's joint_trajectory_controller: it is handed the whole horizon.

    The stamp stays zero: the trajectory begins when it arrives and replaces the one before. Points carry no
    velocities: the controller refuses a last point that moves.
    """

    message_type = JointTrajectory

    def _write_late(self, rows: NDArray[np.float64], stamp: Time, late_ns: int) -> JointTrajectory:  # noqa: ARG002
        return JointTrajectory(
            joint_names=list(self._sink.joints),
            points=[
                JointTrajectoryPoint(
                    positions=array("d", row.tobytes()),
                    time_from_start=_duration(late_ns + (index + 1) * self._period_ns),
                )
                for index, row in enumerate(rows)
            ],
        )


class TrajectoryReader(CommandReader):
    """The first point of a trajectory: what the robot commands now. Joints are taken by name."""

    message_type = JointTrajectory

    def read(self, message: JointTrajectory) -> NDArray[np.float64]:
        if not message.points:
            raise self._error("found a trajectory without points, expected one at least")
        positions = message.points[0].positions
        if len(positions) != len(message.joint_names):
            raise self._error(f"found {len(positions)} positions for {len(message.joint_names)} joints")
        found = dict(zip(message.joint_names, positions, strict=True))
        if missing := [name for name in self._names if name not in found]:
            raise self._error(f"found no {', '.join(missing)} in {', '.join(found)}")
        return self._require_finite(np.array([found[name] for name in self._names]))


def _duration(duration_ns: int) -> Duration:
    seconds, nanoseconds = divmod(duration_ns, 1_000_000_000)
    return Duration(sec=seconds, nanosec=nanoseconds)


def make_command_writer(sink: CommandSink, contract: Contract) -> CommandWriter:
    """Return the writer of a sink's message type.

    Raises WireError for `fields` that the type does not have, and for a type that is not installed.
    """
    if sink.fields:
        return FieldWriter(sink, contract)
    writer: type[CommandWriter] = pkgutil.resolve_name(sink.interface.writer)
    return writer(sink, contract)


def make_command_writers(contract: Contract) -> list[CommandWriter]:
    """Return the writers of a contract's commands. Raises WireError naming the key of the contract."""
    writers = []
    for place, sink in enumerate(contract.commands):
        with naming(f"commands.{place}."):
            writers.append(make_command_writer(sink, contract))
    return writers


def make_takeover_readers(takeover: TakeoverInput, contract: Contract) -> list[CommandReader]:
    """Return the reader of each topic of a person's commands, in the order of `TakeoverInput.share`.

    Raises WireError naming the key of the contract.
    """
    readers: list[CommandReader] = []
    shares = takeover.share(contract.actions.names)
    for (place, source), names in zip(takeover.by_place.items(), shares, strict=True):
        if isinstance(source, TakeoverPart) and source.fields:
            with naming(f"{place}."):
                readers.append(FieldCommandReader(source, contract))
            continue
        reader = _find_reader(source.type, TAKEOVER_INTERFACES.get(source.type))
        readers.append(reader(source.topic, [contract.actions.kind_of(name) for name in names], names))
    return readers


def make_sink_reader(sink: CommandSink, contract: Contract) -> CommandReader:
    """Return the reader of what the robot sends to a controller.

    Raises WireError for a message type that nobody reads: no simulated controller takes it.
    """
    if sink.action is not None:
        raise WireError(f"{sink.type}: found an action, expected a command by topic")
    if sink.fields:
        return FieldCommandReader(sink, contract)
    kinds = [contract.kind_of(sink)] * len(sink.names)
    return _find_reader(sink.type, sink.interface)(sink.topic, kinds, sink.joints)


def _find_reader(message_type: str, interface: CommandInterface) -> type[CommandReader]:
    if not interface.reader:
        expected = f"expected one of {', '.join(COMMAND_INTERFACES.names)}"
        raise WireError(f"{message_type}: found no reader, {expected}")
    reader: type[CommandReader] = pkgutil.resolve_name(interface.reader)
    return reader
