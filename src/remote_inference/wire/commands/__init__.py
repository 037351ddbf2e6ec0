# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands to the robot's controllers: one writer for each message type that a contract may name."""

from __future__ import annotations

import pkgutil

from remote_inference.core.contract import CommandSink, Contract
from remote_inference.wire.commands.writer import CommandWriter

__all__ = ["CommandWriter", "make_command_writer"]


def make_command_writer(sink: CommandSink, contract: Contract) -> CommandWriter:
    """Return the writer of a sink's message type."""
    writer: type[CommandWriter] = pkgutil.resolve_name(sink.interface.writer)
    return writer(sink, contract)
