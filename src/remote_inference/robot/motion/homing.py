# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The way home of a robot that gives up: from where it was commanded last to the contract's home."""

from __future__ import annotations

import math

import numpy as np

from remote_inference.base.contract.actions import Actions, Home
from remote_inference.base.minimum_jerk import minimum_jerk
from remote_inference.robot.action_masks import ActionMasks
from remote_inference.robot.command import Float64Array
from remote_inference.robot.pose_geometry import Poses


class Homing:
    """Targets along a minimum-jerk path (Flash and Hogan 1985); the guard bounds the steps between them.

    A pose goes along the straight line, and its orientation along the shortest arc.
    """

    def __init__(
        self, start: Float64Array, home: Home, begin_ns: int, masks: ActionMasks | None = None
    ) -> None:
        """Plan the way from a point `[action_dim]`.

        masks: of the actions: positions and poses go home, a switch stays as it is, others are zero; None:
        all are positions.
        """
        is_position = np.ones(len(start), bool) if masks is None else masks.is_position
        keeps = np.ones(len(start), bool) if masks is None else masks.holds | masks.is_switch
        self._poses = None if masks is None else masks.poses
        self._start = np.where(keeps, start, 0.0)
        self._goal = self._start.copy()
        self._goal[is_position] = home.positions
        if self._poses is not None:
            for name, columns in zip(self._poses.names, self._poses.columns, strict=True):
                self._goal[columns] = home.poses[name]
            self._goal = _unify(self._poses, self._goal, None)
        self._begin_ns = begin_ns
        self._duration_ns = home.duration_s * 1e9

    def target(self, now_ns: int) -> Float64Array:
        """Return the point of the path `[action_dim]` at an instant."""
        progress = minimum_jerk((now_ns - self._begin_ns) / self._duration_ns)
        point = self._start + progress * (self._goal - self._start)
        return point if self._poses is None else self._poses.turn(point, self._start, self._goal, progress)

    @staticmethod
    def longest_s(home: Home, actions: Actions) -> float:
        """Return the time [s] in which the way ends from anywhere within the limits.

        Steps that the guard makes shorter are made up for after the planned time, at most the whole way.
        """
        limits = [actions.limits[name] for name in actions.positions]
        joints_s = [(limit.max - limit.min) / limit.fastest for limit in limits]
        lines_s = [math.dist(pose.min, pose.max) / pose.max_velocity for pose in actions.poses.values()]
        arcs_s = [math.pi / pose.max_angular_velocity for pose in actions.poses.values()]
        return home.duration_s + max(0.0, *joints_s, *lines_s, *arcs_s)

    def reached(self, command: Float64Array) -> bool:
        """Return whether a command is home. The guard may have made the way longer than planned."""
        goal = self._goal if self._poses is None else _unify(self._poses, self._goal, command)
        return bool(np.allclose(command, goal, rtol=0.0, atol=1e-6))


def _unify(poses: Poses, goal: Float64Array, reference: Float64Array | None) -> Float64Array:
    unified = poses.unify(goal, reference)
    assert unified is not None, "the contract has looked at the length of each quaternion"
    return unified
