# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a fallback is: it says what a robot is commanded while there is nothing to execute."""

from __future__ import annotations

from typing import ClassVar, Protocol

from remote_inference.core.robot.guard import Float64Array
from remote_inference.core.robot.tick import CommandSource


class Fallback(Protocol):
    """Called by the control thread only, once there has been a command.

    What it returns, `[action_dim]`, is not guarded: it is safe as it is. None stands for silence: controllers
    that take a horizon are told to end it, and others hear nothing.
    """

    action_kinds: ClassVar[tuple[str, ...]]  # for which it is safe, as a contract names them
    source: ClassVar[CommandSource]  # what ExecutedAction says of its commands

    def command(self, last: Float64Array, reference: Float64Array | None) -> Float64Array | None:
        """Return what to command in a tick that has nothing to execute.

        last: the last command. reference: the same, None when the robot may be elsewhere by now.
        """

    def stop(self, last: Float64Array) -> Float64Array | None:
        """Return what stops a robot that is paused or gives up; None when silence stops it."""
