# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Command the last position again, for controllers that give up in silence."""

from __future__ import annotations

from remote_inference.core.robot.command import CommandSource, Float64Array


class RepeatLast:
    """The last command while the robot is known to be there, then silence.

    Joints without a controller are told to stay where they are, for the moment in which one comes back.
    """

    action_kinds = ("position", "pose")
    source = CommandSource.REPEAT_LAST

    def command(self, last: Float64Array, reference: Float64Array | None) -> Float64Array | None:  # noqa: ARG002
        return reference

    def stop(self, last: Float64Array) -> None:  # noqa: ARG002
        return None
