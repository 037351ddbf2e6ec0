# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The core's enumerations and the messages' constants are the same: a bag is read by them."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

import pytest

from remote_inference.core.exchange import ChunkStatus
from remote_inference.core.robot.command import CommandSource
from remote_inference.core.robot.safety.state_machine import State
from remote_inference.core.watchdog import Phase, WatchdogState

MESSAGES = Path(__file__).parents[2] / "msg"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (CommandSource, "ExecutedAction"),
        (State, "ClientState"),
        (ChunkStatus, "ActionChunk"),
        (Phase, "Heartbeat"),
        (WatchdogState, "WatchdogState"),
    ],
)
def test_an_enumeration_has_the_constants_of_its_message(values: type[IntEnum], message: str):
    text = (MESSAGES / f"{message}.msg").read_text()
    constants = {name: int(value) for name, value in re.findall(r"^uint8 (\w+)=(\d+)", text, re.MULTILINE)}
    assert {value.name: value.value for value in values} == constants
