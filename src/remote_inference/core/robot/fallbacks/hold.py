# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Command nothing: a position controller keeps its last target."""

from __future__ import annotations

from remote_inference.core.robot.command import CommandSource, Float64Array


class Hold:
    """Silence, for positions and poses only: it would also keep the last velocity or effort."""

    action_kinds = ("position", "pose")
    source = CommandSource.NONE

    def command(self, last: Float64Array, reference: Float64Array | None) -> None:  # noqa: ARG002
        return None

    def stop(self, last: Float64Array) -> None:  # noqa: ARG002
        return None
