# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Waiting until a robot that was paused is commanded no more."""

from __future__ import annotations

from remote_inference.msg import ExecutedAction
from support.nodes.rig import Rig

STILL_TICKS = 10


def count_when_still(rig: Rig) -> int:
    """Return the number of commands once none comes: when a pause begins, one may be on its way."""
    commands, ticks = len(rig.commands), len(rig.executed)

    def is_still() -> bool:
        nonlocal commands, ticks
        if len(rig.commands) > commands:
            commands, ticks = len(rig.commands), len(rig.executed)
        return [tick.source for tick in rig.executed[ticks:]].count(ExecutedAction.NONE) >= STILL_TICKS

    rig.wait_for(is_still, f"{STILL_TICKS} ticks without a command")
    return commands
