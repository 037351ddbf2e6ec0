# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The names of what messages count: states, sources and statuses. A later release may count further."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from remote_inference.core.exchange import ChunkStatus
from remote_inference.core.robot.command import CommandSource
from remote_inference.core.robot.safety.state_machine import State
from remote_inference.core.watchdog import WatchdogState


def state_name(message: Any) -> str:
    """Return the name of a ClientState's state; of one that is unknown here, what the message calls it."""
    name = _name(State, message.state)
    told = str(getattr(message, "state_name", ""))
    return told if told and name.isdecimal() else name


def source_name(number: int) -> str:
    """Return the name of where a command came from; the number when that is unknown here."""
    return _name(CommandSource, number)


def status_name(number: int) -> str:
    """Return the name of a chunk's status; the number when that is unknown here."""
    return _name(ChunkStatus, number)


def watchdog_name(number: int) -> str:
    """Return the name of a watchdog's state; the number when that is unknown here."""
    return _name(WatchdogState, number)


def _name(kind: type[IntEnum], number: int) -> str:
    try:
        return kind(int(number)).name
    except ValueError:
        return str(int(number))
