# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands to the robot's controllers, and those of a person: one class for each message type."""

from __future__ import annotations

import pkgutil

from remote_inference.base.contract.commands.sink import TAKEOVER_INTERFACES, CommandInterface, CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.operator_inputs import TakeoverInput, TakeoverPart
from remote_inference.base.documents.registry import Registry
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.commands.fields import FieldCommandReader, FieldWriter
from remote_inference.base.wire.commands.writer import CommandReader, CommandWriter

# By message type: of the interfaces in `base.contract.commands.sink` that name no class of their own.
WRITERS = Registry[type[CommandWriter]]("command writer")
WRITERS.add("std_msgs/msg/Float64MultiArray", f"{__name__}.trajectory:ArrayWriter")
WRITERS.add("trajectory_msgs/msg/JointTrajectory", f"{__name__}.trajectory:TrajectoryWriter")
WRITERS.add("sensor_msgs/msg/JointState", f"{__name__}.trajectory:JointStateWriter")

READERS = Registry[type[CommandReader]]("command reader")
READERS.add("std_msgs/msg/Float64MultiArray", f"{__name__}.trajectory:ArrayReader")
READERS.add("trajectory_msgs/msg/JointTrajectory", f"{__name__}.trajectory:TrajectoryReader")
READERS.add("sensor_msgs/msg/JointState", f"{__name__}.trajectory:JointStateReader")


def make_command_writer(sink: CommandSink, contract: Contract) -> CommandWriter:
    """Return the writer of a sink's message type.

    Raises WireError for `fields` that the type does not have, and for a type that is not installed.
    """
    if sink.fields:
        return FieldWriter(sink, contract)
    place = sink.interface.writer
    writer: type[CommandWriter] = pkgutil.resolve_name(place) if place else WRITERS.get(sink.type)
    return writer(sink, contract)


def make_command_writers(contract: Contract) -> list[CommandWriter]:
    """Return the writers of a contract's commands. Raises WireError naming the key of the contract."""

    def make(place: int, sink: CommandSink) -> CommandWriter:
        try:
            return make_command_writer(sink, contract)
        except WireError as error:
            raise WireError(f"commands.{place}.{error}") from error

    return [make(place, sink) for place, sink in enumerate(contract.commands)]


def make_takeover_readers(takeover: TakeoverInput, contract: Contract) -> list[CommandReader]:
    """Return the reader of each topic of a person's commands, in the order of `TakeoverInput.share`.

    Raises WireError naming the key of the contract.
    """
    readers: list[CommandReader] = []
    shares = takeover.share(contract.actions.names)
    for (place, source), names in zip(takeover.by_place.items(), shares, strict=True):
        if isinstance(source, TakeoverPart) and source.fields:
            try:
                readers.append(FieldCommandReader(source, contract))
            except WireError as error:
                raise WireError(f"{place}.{error}") from error
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
    if interface.reader:
        reader: type[CommandReader] = pkgutil.resolve_name(interface.reader)
        return reader
    if message_type not in READERS.names:
        raise WireError(f"{message_type}: found no reader, expected one of {', '.join(READERS.names)}")
    return READERS.get(message_type)
