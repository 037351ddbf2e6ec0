# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands to the robot's controllers, and those of a person: one class for each message type."""

from __future__ import annotations

import pkgutil

from remote_inference.core.command_interfaces import TAKEOVER_INTERFACES
from remote_inference.core.contract import Contract
from remote_inference.core.contract_sections import CommandSink
from remote_inference.core.operator_inputs import TakeoverInput
from remote_inference.wire.commands.reader import CommandReader
from remote_inference.wire.commands.writer import CommandWriter

__all__ = ["CommandReader", "CommandWriter", "make_command_reader", "make_command_writer", "make_sink_reader"]


def make_command_writer(sink: CommandSink, contract: Contract) -> CommandWriter:
    """Return the writer of a sink's message type."""
    writer: type[CommandWriter] = pkgutil.resolve_name(sink.interface.writer)
    return writer(sink, contract)


def make_command_reader(takeover: TakeoverInput, contract: Contract) -> CommandReader:
    """Return the reader of a person's commands."""
    reader: type[CommandReader] = TAKEOVER_INTERFACES.get(takeover.type)
    return reader(takeover.topic, contract.actions.kind, contract.actions.names)


def make_sink_reader(sink: CommandSink, contract: Contract) -> CommandReader:
    """Return the reader of what the robot sends to a controller."""
    reader: type[CommandReader] = pkgutil.resolve_name(sink.interface.reader)
    return reader(sink.topic, contract.actions.kind, sink.names)
