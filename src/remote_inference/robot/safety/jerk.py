# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Ways with bounded jerk: time-optimal by Ruckig (Berscheid and Kroeger 2021, arXiv:2105.04830)."""

from __future__ import annotations

import math
from typing import TypeAlias

from remote_inference.base.errors import UserError
from remote_inference.robot.safety.acceleration import SLACK, TINY, Axis, Target

Motion4: TypeAlias = tuple[float, float, float, float]
MOST_FOLLOWED = 0.9  # of the velocity bound: a way catches up with no target that is faster


def rest_after(velocity: float, acceleration: float, most: float, jerk: float) -> float:
    """Return how far what moves so gets until it rests, within bounds of acceleration and jerk.

    It first ends its acceleration, unless it brakes already. All along one axis.
    """

    def stop(speed: float) -> float:  # from a speed without acceleration
        is_short = speed * jerk <= most * most
        return speed * (math.sqrt(speed / jerk) if is_short else 0.5 * (speed / most + most / jerk))

    time_s = abs(acceleration) / jerk  # in which the acceleration ends
    left = velocity + 0.5 * acceleration * time_s
    if velocity * left > 0.0 > velocity * acceleration:  # on its way from a higher speed to rest
        begin = abs(velocity) + 0.5 * abs(acceleration) * time_s
        way = stop(begin) - begin * time_s + jerk * time_s**3 / 6.0
        return math.copysign(way, velocity)
    ended = velocity * time_s + acceleration * time_s * time_s / 3.0
    return ended + math.copysign(stop(abs(left)), left)


class JerkPlanner:
    """Plans the next step of one axis. Its motion is velocity, acceleration, and both when the step ended."""

    def __init__(self, period_s: float) -> None:
        """Build it. Raises UserError when Ruckig is not installed."""
        try:
            import ruckig  # noqa: PLC0415
        except ImportError as error:
            raise UserError(
                "max_jerk: found no ruckig, expected it installed: pip install 'ros-remote-inference[smooth]'"
            ) from error
        self._period_s = period_s
        self._error: type[Exception] = ruckig.RuckigError
        self._planner = ruckig.Ruckig(1)
        self._way = ruckig.Trajectory(1)
        self._input = ruckig.InputParameter(1)
        self._input.target_position, self._input.target_velocity = [0.0], [0.0]

    def breaks(self, axis: Axis, target: Target, last: Motion4) -> bool:
        """Return whether a direct step breaks the bound of jerk, or leads where the next ones must.

        One that meets a point, but not the motion with which the plan goes on there, swings about the plan.
        """
        period_s, velocity = self._period_s, target.way / self._period_s
        change = (velocity - last[0]) / period_s
        onward = (target.follows - velocity) / period_s
        if max(abs(change - last[1]), abs(onward - change)) > axis.jerk * period_s * SLACK + TINY:
            return True
        end = velocity + 0.5 * change * period_s
        peak = end + 0.5 * change * abs(change) / axis.jerk
        if abs(peak) > max(target.fastest, abs(end)) * SLACK + TINY:
            return True
        rest = target.place + target.way + rest_after(end, change, axis.acceleration, axis.jerk)
        return axis.leaves(rest, velocity)

    def plan(self, axis: Axis, target: Target, last: Motion4) -> Motion4:
        """Return the next motion, on the way to the plan's trend.

        What could not stop before a limit any more goes there, to rest.

        Where Ruckig finds no way, from outside of the bounds for example, those of velocity and acceleration
        alone hold.
        """
        place, way, fastest, _, shift, trend = target
        period_s, fastest = self._period_s, max(fastest, TINY)
        speed = max(-MOST_FOLLOWED * fastest, min(MOST_FOLLOWED * fastest, trend))
        begin = _within(axis, last[2], last[3])
        try:
            moved = self._reach(axis, way + shift, begin, speed, fastest)
            rest = place + moved[0] + rest_after(moved[1], moved[2], axis.acceleration, axis.jerk)
            if axis.leaves(rest, moved[1]):
                limit = axis.high if moved[1] > 0.0 else axis.low
                moved = self._reach(axis, limit - place, begin, 0.0, fastest)
        except self._error:
            found = axis.advance(target, last[0], period_s)
            velocity = way / period_s if found is None else found
            return velocity, (velocity - last[0]) / period_s, velocity, 0.0
        velocity = moved[0] / period_s
        return velocity, (velocity - last[0]) / period_s, moved[1], moved[2]

    def _reach(
        self, axis: Axis, way: float, begin: tuple[float, float], follows: float, fastest: float
    ) -> tuple[float, float, float]:
        """Return step, velocity and acceleration after a period, on the way to what moves at `follows`."""
        period_s, given, (velocity, acceleration) = self._period_s, self._input, begin
        # In a frame that moves with it, the target rests.
        given.current_position = [follows * period_s - way]
        given.current_velocity, given.current_acceleration = [velocity - follows], [acceleration]
        given.max_velocity, given.min_velocity = [fastest - follows], [-fastest - follows]
        given.max_acceleration, given.max_jerk = [axis.acceleration], [axis.jerk]
        self._planner.calculate(given, self._way)
        place, velocity, acceleration = (values[0] for values in self._way.at_time(period_s))
        return place + way, velocity + follows, acceleration


def _within(axis: Axis, velocity: float, acceleration: float) -> tuple[float, float]:
    """Return a motion that can stay within the bound of velocity: steps alone say it roughly."""
    velocity = max(-axis.fastest, min(axis.fastest, velocity))
    if velocity * acceleration > 0.0:
        most = math.sqrt(2.0 * axis.jerk * (axis.fastest - abs(velocity)))
        acceleration = max(-most, min(most, acceleration))
    return velocity, acceleration
