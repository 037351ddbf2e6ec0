# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The core's enumerations and the interfaces' constants are the same: a bag is read by them."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

import pytest

from remote_inference.base.exchange import ChunkStatus
from remote_inference.robot.command import CommandSource
from remote_inference.robot.safety.state_machine import State
from remote_inference.robot.task_run import Termination
from remote_inference.robot.watchdog import Phase, WatchdogState

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("values", "interface"),
    [
        (CommandSource, "msg/ExecutedAction.msg"),
        (State, "msg/ClientState.msg"),
        (ChunkStatus, "msg/ActionChunk.msg"),
        (Phase, "msg/Heartbeat.msg"),
        (WatchdogState, "msg/WatchdogState.msg"),
        (Termination, "action/RunPolicy.action"),
    ],
)
def test_an_enumeration_has_the_constants_of_its_interface(values: type[IntEnum], interface: str):
    text = (ROOT / interface).read_text()
    constants = {name: int(value) for name, value in re.findall(r"^uint8 (\w+)=(\d+)", text, re.MULTILINE)}
    assert {value.name: value.value for value in values} == constants
