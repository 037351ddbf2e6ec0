# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Poses among the actions: unit quaternions of one sign, and steps that are bounded in metres and radians."""

from __future__ import annotations

import numpy as np

from remote_inference.core.contract.actions import Actions
from remote_inference.core.robot.command import Float64Array
from remote_inference.core.robot.pose_geometry import Poses, slerp


class PoseRule:
    """Bounds the step of each pose as a whole; other actions pass as they are."""

    def __init__(self, actions: Actions, poses: Poses, period_s: float) -> None:
        """poses: those of the actions. period_s: of a step."""
        bounds = actions.poses.values()
        self.exist = poses.exist
        self._poses = poses
        self._period_s = period_s
        self._max_way = period_s * np.array([pose.max_velocity for pose in bounds])  # of one step [m]
        self._max_turn = period_s * np.array([pose.max_angular_velocity for pose in bounds])  # [rad]

    def unify(self, action: Float64Array, start: Float64Array) -> tuple[Float64Array, Float64Array] | None:
        """Return action and start `[action_dim]` with unit quaternions of one sign.

        None when a quaternion of one of them is too short to say an orientation.
        """
        begin = self._poses.unify(start, None)
        if begin is None:
            return None
        goal = self._poses.unify(action, begin)
        return None if goal is None else (goal, begin)

    def way_s(self, begin: Float64Array, end: Float64Array) -> float:
        """Return the time [s] in which poses get from one action to another, both as `unify` returns them."""
        steps = [
            self._poses.distances(begin, end) / self._max_way,
            self._poses.angles(begin, end) / self._max_turn,
        ]
        return self._period_s * float(np.max(steps, initial=0.0))

    def limit_step(
        self, action: Float64Array, start: Float64Array, limited: Float64Array, velocity_scale: float
    ) -> Float64Array:
        """Return `limited` `[action_dim]` with the steps of poses, from start to action, within bounds.

        The straight line and the shortest arc are shortened by one fraction: a pose that turns while it moves
        stays on its way, and neither is early. action, start: what `unify` returned.
        """
        way, turn = self._poses.distances(start, action), self._poses.angles(start, action)
        max_way, max_turn = velocity_scale * self._max_way, velocity_scale * self._max_turn
        fractions = np.minimum(
            max_way / np.maximum(way, max_way), max_turn / np.maximum(turn, max_turn)
        )  # 1 for what is near
        places, turns = self._poses.places, self._poses.turns
        found: Float64Array = limited.copy()
        left = (1.0 - fractions)[:, np.newaxis]
        found[places] = action[places] - left * (action[places] - start[places])
        found[turns] = slerp(start[turns], action[turns], fractions)
        return found
