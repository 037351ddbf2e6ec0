# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the robot is measured, as far as it can be there: its steps are bounded from where it is measured.

A driver that publishes degrees, joints in another order, or an encoder's broken number would have the robot
led on from there. A joint that is somewhat outside its limits is led back, and nothing is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from remote_inference.core.contract.actions import Actions
from remote_inference.core.contract.contract import Contract
from remote_inference.core.robot.command import BoolArray, Float64Array
from remote_inference.core.robot.pose_geometry import Poses
from remote_inference.core.robot.safety.effects import Effect, Warn
from remote_inference.core.robot.safety.guard import Guard

FARTHEST = 2.0  # beyond the limits, in ranges between them
WARNING_PERIOD_NS = 5_000_000_000  # at most one warning in this time


class MeasuredArm:
    """Where the robot was measured last. For the engine's thread."""

    def __init__(self, contract: Contract, guard: Guard) -> None:
        self.topics = contract.measured_topics
        self.position: Float64Array | None = None
        """Positions and poses `[action_dim]`, None when they are not known."""
        self.time_ns = 0
        """When the oldest of them was captured."""
        self.times_ns = np.zeros(contract.action_dim, np.int64)
        """When each of them was."""
        self._topics = _topics_of_actions(contract)
        self._is_needed = guard.needs_position
        self._range = MeasuredRange(contract.actions, guard.masks.poses)
        self._told_ns = -WARNING_PERIOD_NS

    def take(
        self, arrivals: Mapping[str, int], measured: Float64Array | None, now_ns: int, *, judged: bool
    ) -> tuple[Mapping[str, int], list[Effect]]:
        """Take what the sensors say; return the arrivals that count, and what a person must know.

        Positions that are needed, and cannot be or are none, make their topics silent. judged: False as of
        `Engine.take_sensors`.
        """
        problem = ""
        if judged and self._is_needed:
            problem = self._range.find_problem(measured)
            if problem or measured is None:
                measured = None
                arrivals = {topic: at_ns for topic, at_ns in arrivals.items() if topic not in self.topics}
        self.position = measured
        self.time_ns = min((arrivals.get(topic, 0) for topic in self.topics), default=0)
        self.times_ns = np.array([arrivals.get(topic, 0) for topic in self._topics], np.int64)
        if not problem or now_ns < self._told_ns + WARNING_PERIOD_NS:
            return arrivals, []
        self._told_ns = now_ns
        return arrivals, [Warn(problem)]


def _topics_of_actions(contract: Contract) -> list[str]:
    """Return the topic on which each action is measured, empty where none is."""
    topics = {
        action: measurement.source.topic
        for measurement in contract.measurements
        for action in measurement.actions
    }
    return [topics.get(name, "") for name in contract.actions.names]


class MeasuredRange:
    """Where position actions and the points of poses may be measured, and poses with an orientation."""

    def __init__(self, actions: Actions, poses: Poses) -> None:
        self._actions = actions
        self._poses = poses
        limits = [actions.limit_of(name) for name in actions.names]
        is_bounded = np.array([actions.kind_of(name) == "position" for name in actions.names])
        is_bounded[poses.places.ravel()] = True
        low, high = (np.array([getattr(limit, end) for limit in limits]) for end in ("min", "max"))
        margin = np.where(is_bounded, FARTHEST * (high - low), np.inf)
        self._low, self._high = low - margin, high + margin

    def find_problem(self, measured: Float64Array | None) -> str:
        """Return which position `[action_dim]` cannot be, and why; empty when all can, and for None."""
        if measured is None:
            return ""
        if not self._poses.say_orientations(measured):
            return "a pose is measured with a quaternion of length 0, expected an orientation"
        outside = self.find_impossible(measured)
        if not outside.any():
            return ""
        place = int(np.argmax(outside))
        name = self._actions.names[place]
        limit = self._actions.limit_of(name)
        return (
            f"{name}: measured at {measured[place]:g}, expected near its limits, {limit.min:g} to "
            f"{limit.max:g} {self._actions.unit(name)}: in another unit, or of a broken sensor"
        )

    def find_impossible(self, measured: Float64Array) -> BoolArray:
        """Return the mask `[action_dim]` of what cannot be where it is measured; NaN: it is not measured."""
        outside: BoolArray = (measured < self._low) | (measured > self._high)
        return outside
