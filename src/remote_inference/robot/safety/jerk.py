# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Ways with bounded jerk: time-optimal by Ruckig (Berscheid and Kroeger 2021, arXiv:2105.04830)."""

from __future__ import annotations

import math
from typing import TypeAlias

from remote_inference.base.errors import UserError
from remote_inference.robot.safety.acceleration import SLACK, TINY, Axis, Target
from remote_inference.robot.safety.trend import Trend

Motion2: TypeAlias = tuple[float, float]  # velocity and acceleration
Motion3: TypeAlias = tuple[float, float, float]  # place, too
Motion4: TypeAlias = tuple[float, float, float, float]
MOST_FOLLOWED = 0.99  # of the bounds: a way catches up with no target that is faster
LATE = 1.25  # times the time until a goal that a way to it may take: it gets less late from tick to tick
BLOCKED = 2.0  # times the time that a way was to take: none takes just that, nor about that
TRIES = 6  # to find the first period after which a plan can be met


def span_until_rest(velocity: float, acceleration: float, most: float, jerk: float) -> tuple[float, float]:
    """Return how far below and above its place what moves so gets until it rests, within the bounds.

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
        return (0.0, way) if velocity > 0.0 else (-way, 0.0)
    turn = 0.0
    if velocity * left < 0.0:  # it brakes so hard that it turns before its acceleration ends
        turn_s = (abs(acceleration) - math.sqrt(acceleration**2 - 2.0 * jerk * abs(velocity))) / jerk
        slowing = acceleration / 2.0 - math.copysign(jerk, acceleration) * turn_s / 6.0
        turn = velocity * turn_s + slowing * turn_s**2
    ended = velocity * time_s + acceleration * time_s * time_s / 3.0
    rest = ended + math.copysign(stop(abs(left)), left)
    return min(0.0, turn, rest), max(0.0, turn, rest)


def peak(velocity: float, acceleration: float, jerk: float) -> float:
    """Return the highest speed of what moves so until its acceleration has ended."""
    return max(abs(velocity), abs(velocity + 0.5 * acceleration * abs(acceleration) / jerk))


def end_braking(velocity: float, deceleration: float, jerk: float) -> float:
    """Return the acceleration of what slows down, as far as it can end until it rests."""
    if not velocity:
        return 0.0
    return -math.copysign(min(deceleration, math.sqrt(2.0 * jerk * abs(velocity))), velocity)


class JerkPlanner:
    """Plans the next step of one axis. Its motion is velocity, acceleration, and both when the step ended."""

    def __init__(self, trend: Trend, period_s: float) -> None:
        """Build it. Raises UserError when Ruckig is not installed."""
        try:
            import ruckig  # noqa: PLC0415
        except ImportError as error:
            raise UserError(
                "max_jerk: found no ruckig, expected it installed: pip install 'ros-remote-inference[smooth]'"
            ) from error
        self._period_s, self._trend = period_s, trend
        self._error: type[Exception] = ruckig.RuckigError
        self._planner = ruckig.Ruckig(1)
        self._way = ruckig.Trajectory(1)
        self._input = ruckig.InputParameter(1)

    def breaks(self, axis: Axis, target: Target, last: Motion4) -> bool:
        """Return whether a direct step breaks the bound of jerk, or leads where the next ones must.

        One that meets a point, but not the motion with which the plan goes on there, swings about the plan.
        """
        period_s, velocity = self._period_s, target.way / self._period_s
        change = (velocity - last[0]) / period_s
        onward = (target.follows - velocity) / period_s
        if max(abs(change - last[1]), abs(onward - change)) > axis.jerk * period_s * SLACK + TINY:
            return True
        return self.passes_limits(axis, target, last)

    def passes_limits(self, axis: Axis, target: Target, last: Motion4) -> bool:
        """Return whether what takes a direct step gets too fast, or beyond a limit, whatever it does then."""
        period_s, velocity = self._period_s, target.way / self._period_s
        change = (velocity - last[0]) / period_s
        end = velocity + 0.5 * change * period_s
        if peak(end, change, axis.jerk) > max(target.fastest, abs(end)) * SLACK + TINY:
            return True
        return _limit_passed(axis, target.place, (target.way, end, change)) is not None

    def plan(self, axis: Axis, target: Target, last: Motion4) -> Motion4:
        """Return the next motion, on the way to meet the plan where it will be.

        What could not stop before a limit any more goes there, to rest.

        Where Ruckig finds no way, from outside of the bounds for example, those of velocity and acceleration
        alone hold.
        """
        period_s, place, way = self._period_s, target.place, target.way
        fastest, begin = max(target.fastest, TINY), _within(axis, last[2], last[3])
        try:
            moved = self._meet(axis, target, begin, fastest)
            if (limit := _limit_passed(axis, place, moved)) is not None:
                self._begin(axis, begin, fastest)
                self._solve((limit - place, 0.0, 0.0))
                moved = self._next()
        except self._error:
            found = axis.advance(target, last[0], period_s)
            velocity = way / period_s if found is None else found
            return velocity, (velocity - last[0]) / period_s, velocity, 0.0
        velocity = moved[0] / period_s
        return velocity, (velocity - last[0]) / period_s, moved[1], moved[2]

    def _meet(self, axis: Axis, target: Target, begin: Motion2, fastest: float) -> Motion3:
        """Return the first period of the way that meets the plan as soon as may be, and as it moves there.

        Where none does, the plan is too far away, or so near that there are only ways that are much longer,
        it is caught up with: in a frame that moves as the plan does, its end or where it was to be met.
        """
        self._begin(axis, begin, fastest)
        if not target.ways:
            self._solve((target.way, 0.0, 0.0))
            return self._next()
        period_s, latest = self._period_s, self._trend.span + 1
        impossible, possible, periods = 1, latest + 1, latest
        for _ in range(TRIES):
            self._solve(self._goal(axis, target, periods * period_s, fastest))
            needed = math.ceil(self._way.duration / (LATE * period_s) - 0.5)
            if needed <= periods:
                possible, periods = periods, max(needed, impossible + 1)
            else:
                impossible, periods = periods, (periods + possible) // 2
            if not impossible < periods < possible <= latest:
                break
        after_s = latest * period_s
        if possible <= latest:
            self._solve(self._goal(axis, target, possible * period_s, fastest))
            after_s = max(self._way.duration, period_s)
            self._solve(self._goal(axis, target, after_s, fastest), after_s)
            if self._way.duration <= BLOCKED * after_s:
                return self._next()
        place, frame, _ = self._goal(axis, target, after_s, fastest)
        self._begin(axis, begin, fastest, frame)
        self._solve((place - frame * after_s, 0.0, 0.0))
        return self._next(frame)

    def _goal(self, axis: Axis, target: Target, time_s: float, fastest: float) -> Motion3:
        """Return place, velocity and acceleration of a plan a time after the last command."""
        place, velocity, acceleration = self._trend.at(
            target.ways, time_s - self._period_s, is_rough=target.is_rough
        )
        most, fastest = MOST_FOLLOWED * axis.acceleration, MOST_FOLLOWED * fastest
        velocity = max(-fastest, min(fastest, velocity))
        most = min(most, math.sqrt(2.0 * axis.jerk * (fastest - abs(velocity))))
        return target.way + place, velocity, max(-most, min(most, acceleration))

    def _begin(self, axis: Axis, begin: Motion2, fastest: float, frame: float = 0.0) -> None:
        """Take what holds for the next ways. frame: velocity at which their goals move."""
        given = self._input
        given.current_position = [0.0]
        given.current_velocity, given.current_acceleration = [begin[0] - frame], [begin[1]]
        given.max_velocity, given.min_velocity = [fastest - frame], [-fastest - frame]
        given.max_acceleration, given.max_jerk = [axis.acceleration], [axis.jerk]

    def _solve(self, goal: Motion3, after_s: float | None = None) -> None:
        """Find the way to a goal. after_s: when it is reached; None: as soon as may be."""
        given = self._input
        given.target_position, given.target_velocity, given.target_acceleration = ([one] for one in goal)
        given.minimum_duration = after_s
        self._planner.calculate(given, self._way)

    def _next(self, frame: float = 0.0) -> Motion3:
        """Return step, velocity and acceleration after a period."""
        place, velocity, acceleration = (values[0] for values in self._way.at_time(self._period_s))
        return place + frame * self._period_s, velocity + frame, acceleration


def _within(axis: Axis, velocity: float, acceleration: float) -> tuple[float, float]:
    """Return a motion that can stay within the bound of velocity: steps alone say it roughly."""
    velocity = max(-axis.fastest, min(axis.fastest, velocity))
    if velocity * acceleration > 0.0:
        most = math.sqrt(2.0 * axis.jerk * (axis.fastest - abs(velocity)))
        acceleration = max(-most, min(most, acceleration))
    return velocity, acceleration


def _limit_passed(axis: Axis, place: float, moved: Motion3) -> float | None:
    """Return the limit that a step and the braking after it lead beyond, None for neither."""
    step, (below, above) = moved[0], span_until_rest(moved[1], moved[2], axis.acceleration, axis.jerk)
    return axis.limit_passed(place, (min(step, step + below), max(step, step + above)))
