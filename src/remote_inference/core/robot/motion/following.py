# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether the joints follow their commands: drives that are off, or a controller that is inactive, show here.

Steps that are bounded against the last command alone would lead away from an arm that stands still, and the
arm would jump when its drives come back.
"""

from __future__ import annotations

import numpy as np

from remote_inference.core.contract.actions import Actions
from remote_inference.core.contract.joint_limit import JointLimit
from remote_inference.core.robot.action_masks import ActionMasks
from remote_inference.core.robot.command import Float64Array
from remote_inference.core.robot.motion.step_reference import Joints

# By default a joint may be as far from its command as it gets at max_velocity in this time [s]: four times as
# far as the joints of the belt arm ever lag (0.06 s).
LAG_S = 0.25
RETRY_NS = 1_000_000_000  # pause before a joint that does not follow is offered single steps


def _bound(limit: JointLimit) -> float:
    if limit.max_following_error == "off":
        return np.inf
    return limit.max_following_error or LAG_S * limit.fastest


class FollowingWatch:
    """Watches the distance of positions and poses from their last command. For one thread.

    A pose is watched as one joint, by its distance and its angle, and named by its own name.
    """

    def __init__(self, actions: Actions, masks: ActionMasks, period_s: float) -> None:
        limits = [actions.limit_of(name) for name in actions.names]
        self._names = actions.names
        speeds = [limit.max_velocity or 0.0 for limit in limits]  # 0: of a switch, which follows always
        self._max_velocity = np.array(speeds)
        self._bound = np.array([_bound(limit) for limit in limits])
        self._least_move = self._max_velocity * period_s
        self._astray = np.zeros(len(limits), bool)
        self._from = np.zeros(len(limits))  # where each joint was when it was found astray
        self._retry_ns = 0
        self._poses = masks.poses
        self._is_pose = masks.is_pose
        self._period_s = period_s
        poses = actions.poses.values()
        # Of the poses, `[2, poses]`: [m/s] and [rad/s], [m] and [rad].
        fastest = [(pose.max_velocity, pose.max_angular_velocity) for pose in poses]
        self._speeds = np.array(fastest).reshape(-1, 2).T
        said = [(pose.max_following_error, pose.max_following_angle) for pose in poses]
        bounds = np.array(said, np.float64).reshape(-1, 2).T  # NaN where it is left out
        self._bounds = np.where(np.isnan(bounds), LAG_S * self._speeds, bounds)

    @property
    def astray(self) -> tuple[str, ...]:
        """Names of the joints and poses that did not follow and have not moved since."""
        if not self._astray.any():
            return ()
        astray = self._astray & ~self._is_pose
        alone = tuple(name for name, is_astray in zip(self._names, astray, strict=True) if is_astray)
        found = zip(self._poses.names, self._poses.any_of(self._astray), strict=True)
        return (*alone, *(name for name, is_astray in found if is_astray))

    def forget(self) -> None:
        """Judge anew from the next command on."""
        self._astray = np.zeros_like(self._astray)

    def look(
        self, command: Float64Array, measured: Float64Array, led: Joints, *, ages_s: Float64Array, now_ns: int
    ) -> tuple[Joints, Joints]:
        """Return the joints whose last command does not hold, and those that must not be led on now.

        command: the last one. measured: the joints' positions, each so old as `ages_s` says, NaN of one of
        which nothing is known. Quaternions of both have the length 1. led: joints for which the command
        holds. After a pause the joints may be led on, from where they are measured in each tick: a controller
        that holds its joint moves it only when commanded. What has moved by a step follows again.
        """
        allowed = self._bound + self._max_velocity * ages_s
        lost = led & (np.abs(command - measured) > allowed)
        if self._poses.exist:
            ages_s = ages_s[self._poses.columns].max(axis=1)
            apart = self._are_apart(command, measured, ages_s, self._bounds)
            lost = np.where(self._is_pose, led & apart, lost)
        if lost.any():
            self._from = np.where(lost & ~self._astray, measured, self._from)
            self._astray = self._astray | lost
            self._retry_ns = now_ns + RETRY_NS
        lost = self._astray
        still = ~(np.abs(measured - self._from) > self._least_move)
        if self._poses.exist:
            has_moved = self._are_apart(self._from, measured, self._period_s)
            still = np.where(self._is_pose, ~has_moved, still)
        self._astray = lost & still
        return lost, self._astray & (now_ns < self._retry_ns)

    def _are_apart(
        self,
        begin: Float64Array,
        end: Float64Array,
        times_s: Float64Array | float,
        bounds: Float64Array | float = 0.0,
    ) -> Joints:
        """Return the columns of poses that are farther apart than bounds, and times at their speeds, allow.

        times_s: `[poses]`. bounds: `[2, poses]` [m] and [rad].
        """
        allowed = bounds + self._speeds * times_s
        far = self._poses.distances(begin, end) > allowed[0]
        turned = self._poses.angles(begin, end) > allowed[1]
        return self._poses.spread(far | turned, len(begin))
