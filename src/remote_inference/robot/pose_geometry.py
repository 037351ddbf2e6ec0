# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Columns of action vectors: poses with their distances and angles, and masks of the actions by kind.

A quaternion is x, y, z, w. It and its negative are the same orientation, so no column of one says anything
alone: whatever compares two quaternions gives them one sign first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from remote_inference.base.contract.action_bounds import PoseAction
from remote_inference.base.contract.action_kinds import GOING_ON, STAYING, Kind
from remote_inference.base.contract.actions import Actions
from remote_inference.robot.command import BoolArray, Float64Array

LEAST_LENGTH = 0.1  # of a quaternion that says an orientation: a shorter one is made of noise


def align(quaternions: Float64Array, others: Float64Array) -> Float64Array:
    """Return quaternions `[n, 4]` with the signs that are nearer to the others `[n, 4]`."""
    against = np.einsum("ij,ij->i", quaternions, others) < 0.0
    aligned: Float64Array = np.where(against[:, np.newaxis], -quaternions, quaternions)
    return aligned


def angles_between(begin: Float64Array, end: Float64Array) -> Float64Array:
    """Return the shortest angles `[n]` between orientations, unit quaternions `[n, 4]` [rad]."""
    end = align(end, begin)
    apart, together = np.linalg.norm(end - begin, axis=1), np.linalg.norm(end + begin, axis=1)
    angles: Float64Array = 4.0 * np.arctan2(apart, together)
    return angles


def multiply(before: Float64Array, after: Float64Array) -> Float64Array:
    """Return the quaternion `[4]` of the rotation `after`, then `before`: Hamilton's product of the two."""
    (x, y, z, w), (a, b, c, d) = before.tolist(), after.tolist()
    product = [
        w * a + x * d + y * c - z * b,
        w * b - x * c + y * d + z * a,
        w * c + x * b - y * a + z * d,
        w * d - x * a - y * b - z * c,
    ]
    return np.array(product)


def rotate(quaternion: Float64Array, vector: Float64Array) -> Float64Array:
    """Return a vector `[3]` turned by a unit quaternion `[4]`: v + 2 u x (u x v + w v), u = (x, y, z)."""
    axis, real = quaternion[:3], quaternion[3]
    turned: Float64Array = vector + 2.0 * np.cross(axis, np.cross(axis, vector) + real * vector)
    return turned


def slerp(begin: Float64Array, end: Float64Array, fraction: Float64Array) -> Float64Array:
    """Return orientations `[n, 4]` on the shortest arcs between unit quaternions, at fractions `[n]`."""
    end = align(end, begin)
    half = 0.5 * angles_between(begin, end) / np.pi  # between the two as vectors; sinc takes half turns
    before, after = 1.0 - fraction, fraction
    before = before * np.sinc(before * half) / np.sinc(half)
    after = after * np.sinc(after * half) / np.sinc(half)
    found: Float64Array = before[:, np.newaxis] * begin + after[:, np.newaxis] * end
    return found


class Poses:
    """The poses of an action vector `[action_dim]`. `places` `[n, 3]`, `turns` `[n, 4]`: their columns."""

    def __init__(self, poses: Mapping[str, PoseAction], names: Sequence[str]) -> None:
        """names: of the actions `[action_dim]`."""
        self.names = tuple(poses)
        self.exist = bool(poses)
        columns = [[names.index(name) for name in pose.names] for pose in poses.values()]
        self.columns = np.array(columns, np.intp).reshape(len(poses), 7)
        self.places, self.turns = self.columns[:, :3], self.columns[:, 3:]

    def whole(self, mask: BoolArray) -> BoolArray:
        """Return a mask `[action_dim]` in which each pose with any column of it has all seven."""
        if not self.exist:
            return mask
        return mask | self.spread(self.any_of(mask), len(mask))

    def any_of(self, mask: BoolArray) -> BoolArray:
        """Return the mask `[n]` of the poses that have any column in a mask `[action_dim]`."""
        found: BoolArray = np.any(mask[self.columns], axis=1)
        return found

    def spread(self, poses: BoolArray, action_dim: int) -> BoolArray:
        """Return the mask `[action_dim]` of all columns of some poses `[n]`."""
        found = np.zeros(action_dim, bool)
        found[self.columns[poses].ravel()] = True
        return found

    def unify(self, action: Float64Array, reference: Float64Array | None) -> Float64Array | None:
        """Return the action `[action_dim]` with unit quaternions, of the signs of the reference's.

        None when a quaternion is too short to say an orientation. reference: None where none is known.
        """
        if not self.exist:
            return action
        quaternions = action[self.turns]
        lengths = np.linalg.norm(quaternions, axis=1, keepdims=True)
        if not (lengths >= LEAST_LENGTH).all():
            return None
        unified: Float64Array = action.copy()
        quaternions = quaternions / lengths
        unified[self.turns] = quaternions if reference is None else align(quaternions, reference[self.turns])
        return unified

    def normalize(self, action: Float64Array) -> Float64Array:
        """Return the action `[action_dim]` with unit quaternions; a pose that says no orientation is NaN."""
        lengths = np.linalg.norm(action[self.turns], axis=1, keepdims=True)
        lengths = np.where(lengths >= LEAST_LENGTH, lengths, np.nan)
        found: Float64Array = action.copy()
        found[self.turns] = action[self.turns] / lengths
        found[self.places] = np.where(np.isnan(lengths), np.nan, action[self.places])
        return found

    def distances(self, begin: Float64Array, end: Float64Array) -> Float64Array:
        """Return the distances `[n]` between the positions of two actions `[action_dim]` [m]."""
        found: Float64Array = np.linalg.norm(end[self.places] - begin[self.places], axis=1)
        return found

    def angles(self, begin: Float64Array, end: Float64Array) -> Float64Array:
        """Return the angles `[n]` between the unit quaternions of two actions `[action_dim]` [rad]."""
        return angles_between(begin[self.turns], end[self.turns])

    def say_orientations(self, action: Float64Array) -> bool:
        """Return whether each quaternion of an action `[action_dim]` is long enough to say one."""
        return self.unify(action, None) is not None

    def turn(
        self, point: Float64Array, begin: Float64Array, end: Float64Array, fraction: float
    ) -> Float64Array:
        """Return a point `[action_dim]` between two actions, with quaternions on the arcs between theirs.

        Both actions say orientations.
        """
        unit_begin, unit_end = self.unify(begin, None), self.unify(end, None)
        assert unit_begin is not None, "no arc leads from no orientation"
        assert unit_end is not None, "no arc leads to no orientation"
        fractions = np.full(len(self.turns), fraction)
        turned: Float64Array = point.copy()
        turned[self.turns] = slerp(unit_begin[self.turns], unit_end[self.turns], fractions)
        return turned


# -- Poses among the actions: unit quaternions of one sign, and steps that are bounded in metres and radians


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


# -- Which actions are treated alike, by their kinds: one table of masks for all that looks at them ----------


@dataclass(frozen=True)
class ActionMasks:
    """Masks `[action_dim]` of a contract's actions. Build it once: `Guard` has it for all others.

    holds: positions and poses, which stay at their last command by themselves, can be measured in the
    commands' unit and step from where they are. goes_on: velocities and efforts, which go on in silence until
    they get zero. is_switch: neither of them: a switch stays at its last command whatever happens.
    """

    kinds: tuple[Kind, ...]
    is_position: BoolArray
    is_velocity: BoolArray
    is_switch: BoolArray
    is_pose: BoolArray
    holds: BoolArray
    goes_on: BoolArray
    poses: Poses

    @classmethod
    def of(cls, actions: Actions) -> ActionMasks:
        """Return the masks of a contract's actions."""
        kinds = actions.kinds

        def mask(*wanted: Kind) -> BoolArray:
            return np.array([kind in wanted for kind in kinds])

        return cls(
            kinds,
            is_position=mask("position"),
            is_velocity=mask("velocity"),
            is_switch=mask("switch"),
            is_pose=mask("pose"),
            holds=mask(*STAYING),
            goes_on=mask(*GOING_ON),
            poses=Poses(actions.poses, actions.names),
        )
