# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Poses among the actions: unit quaternions of one sign, and steps that are bounded in metres and radians."""

from __future__ import annotations

import numpy as np

from remote_inference.core.contract.sections import Actions
from remote_inference.core.robot.command import Float64Array
from remote_inference.core.robot.pose_geometry import Poses, slerp


class PoseRule:
    """Bounds the step of each pose as a whole; other actions pass as they are."""

    def __init__(self, actions: Actions, poses: Poses, period_s: float) -> None:
        """poses: those of the actions. period_s: of a step."""
        bounds = actions.poses.values()
        self.exist = poses.exist
        self._poses = poses
        self._max_way = period_s * np.array([pose.max_velocity for pose in bounds])  # of one step [m]
        self._max_turn = period_s * np.array([pose.max_angular_velocity for pose in bounds])  # [rad]

    def unify(self, action: Float64Array, start: Float64Array) -> tuple[Float64Array, Float64Array] | None:
        """Return action and start `[action_dim]` with unit quaternions of one sign.

        None when a quaternion of one of them is too short to say an orientation.
        """
        begin = self._poses.unify(start, None)
        goal = None if begin is None else self._poses.unify(action, begin)
        return None if begin is None or goal is None else (goal, begin)

    def limit_step(
        self, action: Float64Array, start: Float64Array, limited: Float64Array, velocity_scale: float
    ) -> Float64Array:
        """Return `limited` `[action_dim]` with the steps of poses, from start to action, within bounds.

        The straight line and the shortest arc are shortened by one fraction: a pose that turns while it moves
        stays on its way, and neither is early. action, start: what `unify` returned.
        """
        way, turn = self._poses.distances(start, action), self._poses.angles(start, action)
        fractions = np.ones(len(way))
        for far, most in ((way, velocity_scale * self._max_way), (turn, velocity_scale * self._max_turn)):
            is_far = far > most
            fractions[is_far] = np.minimum(fractions[is_far], most[is_far] / far[is_far])
        places, turns = self._poses.places, self._poses.turns
        is_short = (fractions < 1.0)[:, np.newaxis]
        on_line = start[places] + fractions[:, np.newaxis] * (action[places] - start[places])
        on_arc = slerp(start[turns], action[turns], fractions)
        found: Float64Array = limited.copy()
        found[places] = np.where(is_short, on_line, action[places])
        found[turns] = np.where(is_short, on_arc, action[turns])
        return found
