# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Command zeros: the stop of a robot that goes on in silence."""

from __future__ import annotations

import numpy as np

from remote_inference.core.robot.command import CommandSource, Float64Array


class Zero:
    """Zeros stop velocities and efforts; for positions they are a target."""

    action_kinds = ("velocity", "effort")
    source = CommandSource.ZERO

    def command(self, last: Float64Array, reference: Float64Array | None) -> Float64Array:  # noqa: ARG002
        return np.zeros_like(last)

    def stop(self, last: Float64Array) -> Float64Array:
        return np.zeros_like(last)
