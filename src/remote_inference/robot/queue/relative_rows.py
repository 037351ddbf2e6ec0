# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Makes the relative rows of a chunk absolute, when it is accepted.

What they are relative to is where the robot was measured with the observation that the policy saw, and not
where it is by now: the arm may have moved during the latency, and still goes where the policy meant. From
here on nothing knows that the rows were relative.

The composition of poses is that of rigid motions: in the tool's frame T = T_before * T_row, as in Chi et al.
2024, *Universal Manipulation Interface*, arXiv:2402.10329.
"""

from __future__ import annotations

import numpy as np

from remote_inference.base.contract.action_bounds import RelativePose
from remote_inference.base.contract.contract import Contract
from remote_inference.base.policy import Float32Array
from remote_inference.robot.command import Float64Array
from remote_inference.robot.pose_geometry import LEAST_LENGTH, multiply, rotate


class RelativeRows:
    """The relative actions of a contract."""

    def __init__(self, contract: Contract) -> None:
        actions = contract.actions
        names, joints = list(actions.names), actions.relative
        self.exist = actions.is_relative
        self._units = contract.action_units
        self._joints = np.array([names.index(name) for name in joints.names] if joints else [], np.intp)
        self._adds_up = joints is not None and joints.to == "previous"
        self._poses = [
            (np.array([names.index(name) for name in pose.names], np.intp), pose.relative)
            for pose in actions.poses.values()
            if pose.relative is not None
        ]
        needed = [self._joints, *(columns for columns, _ in self._poses)]
        self._needed = np.concatenate(needed)

    def can_resolve(self, measured: Float64Array | None) -> bool:
        """Return whether it is known where the robot was. measured: `[action_dim]`, NaN where it is not."""
        return not self.exist or (measured is not None and bool(np.isfinite(measured[self._needed]).all()))

    def resolve(self, rows: Float32Array, measured: Float64Array | None) -> Float32Array:
        """Return rows `[rows, policy_dim]` that say where to, both in the policy's units and forms.

        measured: `[action_dim]`, in the robot's units; `can_resolve` comes before. A row whose quaternion
        says no orientation stays so, in another form as NaN, and with `previous` all that follow it: the
        guard refuses them. A number that float32 does not hold is infinite.
        """
        if not self.exist:
            return rows
        assert measured is not None, "can_resolve comes before"
        begin = self._units.in_policy_units(measured)
        found = self._units.unfold(rows.astype(np.float64))
        steps = found[:, self._joints]
        found[:, self._joints] = begin[self._joints] + (np.cumsum(steps, axis=0) if self._adds_up else steps)
        for columns, relative in self._poses:
            found[:, columns] = _compose(begin[columns], found[:, columns], relative)
        with np.errstate(over="ignore"):
            absolute: Float32Array = self._units.fold(found).astype(np.float32)
        return absolute


def _compose(begin: Float64Array, motions: Float64Array, relative: RelativePose) -> Float64Array:
    """Return the poses `[rows, 7]` to which motions `[rows, 7]` lead from a pose `[7]`."""
    poses = np.empty_like(motions)
    before = begin
    for place, motion in enumerate(motions):
        poses[place] = _move(before, motion, in_tool=relative.frame == "tool")
        if relative.to == "previous":
            before = poses[place]
    return poses


def _move(before: Float64Array, motion: Float64Array, *, in_tool: bool) -> Float64Array:
    length = np.linalg.norm(motion[3:])
    turned = np.linalg.norm(before[3:])
    if min(length, turned) < LEAST_LENGTH:
        return np.concatenate([before[:3], np.zeros(4)])
    attitude, turn = before[3:] / turned, motion[3:] / length
    if in_tool:
        return np.concatenate([before[:3] + rotate(attitude, motion[:3]), multiply(attitude, turn)])
    return np.concatenate([before[:3] + motion[:3], multiply(turn, attitude)])
