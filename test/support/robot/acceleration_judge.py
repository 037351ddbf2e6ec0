# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The judge of accelerations: each command, from how its joint was commanded to move before.

A joint is at its last command, and moves as from the one before it to that; or it stands still: at its last
command, or where it was measured. From there the next step changes its velocity by no more than
`max_acceleration` lets it in a tick. A stop may end a motion at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.pose_geometry import angles_between

if TYPE_CHECKING:
    from support.robot.controllers import Controlled
    from support.robot.watched_world import WatchedWorld

SLACK = 1.0 + 1e-6
ROUNDING = 2e-6
STOPS = frozenset({CommandSource.HOLD, CommandSource.ZERO})


class AccelerationJudge:
    """Knows at which velocities each action's last command may have been on its way.

    From where its step began, the judge cannot always say: at the last command, or where it was measured.
    """

    def __init__(self, world: WatchedWorld) -> None:
        actions = world.contract.actions
        self._world = world
        self._period_s = world.contract.period_s
        self._most = np.array([actions.limit_of(name).max_acceleration or np.inf for name in actions.names])
        limits = [actions.limit_of(name) for name in actions.names]
        self._stops = self._period_s * np.array([limit.max_deceleration or 0.0 for limit in limits])
        self._velocities = np.zeros((2, world.contract.action_dim))
        self._turns = (
            0.0,
            0.0,
        )  # of the pose's orientation [rad/s]: the direction is no matter of this judge

    def judge(self, tick: Tick, arm: Controlled, rows: np.ndarray) -> None:
        """Judge what one controller gets `[rows, joints]`, before the world takes it as commanded."""
        judge = {"pose": self._judge_pose, "position": self._judge_positions}.get(arm.kind)
        if judge is not None and tick.source in STOPS:
            self._velocities[:, arm.joints], self._turns = 0.0, (0.0, 0.0)
        elif judge is not None:
            judge(tick, arm, rows)
        elif arm.kind == "velocity" and tick.source not in STOPS:
            self._judge_velocities(tick, arm, rows[0])

    def _judge_velocities(self, tick: Tick, arm: Controlled, first: np.ndarray) -> None:
        last, most = self._world.commanded[arm.joints], self._most[arm.joints] * self._period_s
        if tick.source is CommandSource.REPEAT_LAST:
            most = np.maximum(most, self._stops[arm.joints])
        near = (np.abs(first - last) <= most * SLACK + ROUNDING) | (np.abs(first) <= most * SLACK + ROUNDING)
        assert near.all(), f"{tick.source.name} accelerates from {last} to {first}, expected by {most}"

    def _judge_positions(self, tick: Tick, arm: Controlled, rows: np.ndarray) -> None:
        joints, period_s = arm.joints, self._period_s
        most = self._most[joints] * period_s * SLACK + ROUNDING / period_s  # change of a velocity in a tick
        last, measured = self._world.commanded[joints], self._world.measured[0][joints]
        from_last, from_measured = (rows[0] - last) / period_s, (rows[0] - measured) / period_s
        known = [*self._velocities[:, joints], np.zeros(len(last))]
        changes = (
            most
            if tick.source is not CommandSource.REPEAT_LAST
            else np.maximum(most, self._stops[joints] * SLACK)
        )
        goes_on = np.any([~(np.abs(from_last - velocity) > changes) for velocity in known], axis=0)
        begins = np.abs(from_measured) <= most
        is_late = arm.is_trajectory and self._is_late(arm)
        if is_late:  # it has gone on along its points
            goes_on, begins = np.isfinite(last), np.ones_like(begins)
        assert (goes_on | begins).all(), (
            f"{tick.source.name} moves at {from_last} from {last}, or at {from_measured} from {measured}, "
            f"after {known}, expected changes of {most}"
        )
        found = [np.where(goes_on, from_last, from_measured), np.where(begins, from_measured, from_last)]
        steps = np.diff(rows, axis=0) / period_s
        known = [steps[0]] if is_late and len(steps) else found
        inner = [np.abs(np.diff(steps, axis=0, prepend=one[np.newaxis])) <= most for one in known]
        assert np.any([one.all(axis=0) for one in inner], axis=0).all(), "it accelerates within points"
        self._velocities[:, joints] = np.nan if is_late else found  # nan: nobody knows, any is right

    def _judge_pose(self, tick: Tick, arm: Controlled, rows: np.ndarray) -> None:
        (pose,) = self._world.contract.actions.poses.values()
        if pose.max_acceleration is None or pose.max_angular_acceleration is None:
            return
        joints, period_s, first = arm.joints, self._period_s, rows[0]
        begins = [self._world.commanded[joints], self._world.measured[0][joints]]
        places, rest = joints[:3], np.zeros(3)
        known = [[*self._velocities[:, places], rest], [rest]]
        most = pose.max_acceleration * period_s * SLACK + ROUNDING / period_s
        lines = [(first[:3] - begin[:3]) / period_s for begin in begins]
        found = [
            line
            for line, before in zip(lines, known, strict=True)
            if min(np.linalg.norm(line - one) for one in before) <= most
        ]
        assert found, f"{tick.source.name} accelerates a pose: {lines} after {known}, expected {most}"
        self._velocities[:, places] = [found[0], found[-1]]
        most = pose.max_angular_acceleration * period_s * SLACK + 1e-5 / period_s
        turns = [
            float(angles_between(b[np.newaxis, 3:], first[np.newaxis, 3:])[0]) / period_s for b in begins
        ]
        near = [min(abs(turns[0] - one) for one in (*self._turns, 0.0)) <= most, turns[1] <= most]
        assert any(near), f"{tick.source.name} turns at {turns} after {self._turns}, expected {most}"
        said = [turn for turn, is_near in zip(turns, near, strict=True) if is_near]
        self._turns = (said[0], said[-1])

    def _is_late(self, arm: Controlled) -> bool:
        world = self._world
        gap_ns = world.now_ns - world.commanded_ns[arm.joints].max()
        return bool(gap_ns > world.period_ns)
