# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether measured positions can be the robot's own: steps are bounded from where the joints are measured.

A driver that publishes degrees, joints in another order, or an encoder's broken number would have the robot
led on from there. A joint that is somewhat outside its limits is led back, and nothing is wrong with it.
"""

from __future__ import annotations

import numpy as np

from remote_inference.core.contract.actions import Actions
from remote_inference.core.robot.command import Float64Array
from remote_inference.core.robot.pose_geometry import Poses

FARTHEST = 2.0  # beyond the limits, in ranges between them


class MeasuredRange:
    """Where the joints of position actions may be measured."""

    def __init__(self, actions: Actions, poses: Poses) -> None:
        self._actions = actions
        self._poses = poses
        limits = [actions.limit_of(name) for name in actions.names]
        is_position = np.array([actions.kind_of(name) == "position" for name in actions.names])
        low, high = (np.array([getattr(limit, end) for limit in limits]) for end in ("min", "max"))
        margin = np.where(is_position, FARTHEST * (high - low), np.inf)
        self._low, self._high = low - margin, high + margin

    def find_problem(self, measured: Float64Array | None) -> str:
        """Return which position `[action_dim]` cannot be, and why; empty when all can, and for None."""
        if measured is None:
            return ""
        if self._poses.exist and not self._poses.say_orientations(measured):
            return "a pose is measured with a quaternion of length 0, expected an orientation"
        outside = (measured < self._low) | (measured > self._high)
        if not outside.any():
            return ""
        place = int(np.argmax(outside))
        name = self._actions.names[place]
        limit = self._actions.limits[name]
        return (
            f"{name}: measured at {measured[place]:g}, expected near its limits, {limit.min:g} to "
            f"{limit.max:g} {self._actions.unit(name)}: in another unit, or of a broken sensor"
        )
