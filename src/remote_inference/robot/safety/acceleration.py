# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bounds of acceleration and jerk: the next command, from the position and motion of the last one.

Ticks are T apart, p is the last command, v its step over T, x the point that is wanted, and w the velocity
with which that point moves on. A step that gets to x within the bounds is taken as it is. Else, with a bound
a of acceleration alone, the next velocity u is

    u = w + brake(x - w T - p),   within |u| <= max_velocity and |u - v| <= a T

so that the command catches up with what it follows, and meets it at its velocity. brake(d) is the largest
velocity from which ticks, each slower by a T, come to rest within the distance d:

    brake(d) = d / ((n + 1) T) + n a T / 2,   n = floor((sqrt(1 + 8 d / (a T^2)) - 1) / 2)

With a bound of jerk the way to x is the time-optimal one (`jerk.py`). A command that could not stop before a
limit of its position any more brakes instead.

The position of a pose, and its orientation as a rotation vector, are vectors of three axes, whose lengths are
bounded. Actions that command a velocity are the same one order lower: their acceleration bounds the step, and
their jerk the change of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from remote_inference.base.contract.actions import Actions
from remote_inference.base.rotations import INVERSE, ROTATION_FORMS
from remote_inference.robot.command import BoolArray, Float64Array
from remote_inference.robot.pose_geometry import multiply

ACCELERATION_LIMIT = "acceleration_limit"
JERK_LIMIT = "jerk_limit"
SLACK, TINY = 1.0 + 1e-9, 1e-9  # of rounding, by which a step may be longer than its bound
ROTATION = ROTATION_FORMS.get("rotation_vector")


@dataclass(frozen=True)
class Motion:
    """How the last command moved, `[action_dim]`; a pose's orientation in the first three of its columns.

    velocity: of its step [unit/s]. acceleration: its change [unit/s2]. end_velocity, end_acceleration: at the
    end of the step, of a way with bounded jerk.
    """

    velocity: Float64Array
    acceleration: Float64Array
    end_velocity: Float64Array
    end_acceleration: Float64Array

    @classmethod
    def rest(cls, action_dim: int) -> Motion:
        """Return the motion of what stands still."""
        return cls(*np.zeros((4, action_dim)))

    @property
    def rows(self) -> Float64Array:
        """All of it `[4, action_dim]`."""
        return np.stack([self.velocity, self.acceleration, self.end_velocity, self.end_acceleration])

    def where(self, mask: BoolArray, other: Motion | None = None) -> Motion:
        """Return the same of what a mask `[action_dim]` names, of the rest another one; None: it rests."""
        return (
            self if mask.all() else Motion(*np.where(mask, self.rows, 0.0 if other is None else other.rows))
        )


class Target(NamedTuple):
    """What one tick wants of an axis.

    place: of the last command. way: from there to what is wanted, which moves on at `follows`. fastest: that
    is allowed now. ways: from what is wanted to the samples of `Trend`, () where it rests there. is_rough:
    they are too rough for the bound of jerk.
    """

    place: float
    way: float
    fastest: float
    follows: float
    ways: Sequence[float] = ()
    is_rough: bool = False


class PoseTarget(NamedTuple):
    """The same of three axes."""

    places: list[float]
    way: list[float]
    fastest: float
    follows: list[float]
    ways: Sequence[Sequence[float]]
    is_rough: list[bool]


@dataclass(frozen=True)
class Axis:
    """One number of the action vector and its bounds.

    fastest: [unit/s]; of an action that commands a velocity its acceleration, and so on. low, high: of its
    position.
    """

    column: int
    fastest: float
    acceleration: float = math.inf
    jerk: float = math.inf
    low: float = -math.inf
    high: float = math.inf
    deceleration: float = math.inf
    is_velocity: bool = False

    def allowed(self, velocity_scale: float) -> float:
        """Return the fastest that is allowed with a fraction of the velocity limits."""
        return self.fastest if self.is_velocity else velocity_scale * self.fastest

    @property
    def starting_s(self) -> float:
        """Time [s] that starting and stopping within the bounds add to a way at full velocity."""
        if self.is_velocity or self.acceleration == math.inf:
            return 0.0
        return self.fastest / self.acceleration + self.acceleration / self.jerk

    def way_s(self, distance: float) -> float:
        """Return about the time [s] that a distance takes from rest to rest."""
        fastest, most = self.fastest, self.acceleration
        is_long = distance * most > fastest * fastest
        time_s = distance / fastest + fastest / most if is_long else 2.0 * math.sqrt(distance / most)
        if self.jerk == math.inf:
            return time_s
        return time_s + min(most / self.jerk, math.pow(32.0 * distance / self.jerk, 1 / 3))

    def leaves(self, end: float, velocity: float) -> bool:
        """Return whether what moves so, and comes to rest there, rests beyond a limit."""
        return end > self.high + TINY if velocity > 0.0 else velocity < 0.0 and end < self.low - TINY

    def limit_passed(self, place: float, span: tuple[float, float]) -> float | None:
        """Return the limit beyond which a motion leads that spans so much below and above; None: neither."""
        if span[1] > 0.0 and self.leaves(place + span[1], 1.0):
            return self.high
        return self.low if span[0] < 0.0 and self.leaves(place + span[0], -1.0) else None

    def advance(self, target: Target, velocity: float, period_s: float) -> float | None:
        """Return the next velocity, None where the step that gets to what is wanted breaks no bound.

        velocity: of the last command.
        """
        place, way, fastest, follows = target[:4]
        most, direct = self.acceleration * period_s, way / period_s
        near = most * SLACK + TINY
        is_within = (
            abs(direct - velocity) <= near
            and abs(direct - follows) <= near
            and abs(direct) <= fastest * SLACK + TINY
        )
        if is_within and not self.leaves(place + self._stop(direct, period_s), direct):
            return None
        lack = way - period_s * follows
        wanted = follows + math.copysign(brake(abs(lack), self.acceleration, period_s), lack)
        wanted = min(max(wanted, -fastest), fastest)
        found = min(max(wanted, velocity - most), velocity + most)
        if self.leaves(place + self._stop(found, period_s), found):
            return slow_down(velocity, most)
        return found

    def _stop(self, velocity: float, period_s: float) -> float:
        """Return how far a tick at a velocity leads, and the braking that follows."""
        braking = braking_way(abs(velocity), self.acceleration, period_s)
        return period_s * velocity + math.copysign(braking, velocity)


@dataclass(frozen=True)
class PoseAxes:
    """The position of a pose or its orientation, as a vector of three axes whose length is bounded.

    columns: of the action vector, for an orientation the four of its quaternion. axes: each with its share of
    the bounds of acceleration and jerk, for what bounds single axes. pose: that it belongs to.
    """

    pose: str
    columns: tuple[int, ...]
    bounds: Axis
    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, pose: str, columns: Sequence[int], bounds: Axis, *box: Sequence[float]) -> PoseAxes:
        """box: lowest and highest position; none of an orientation."""
        share = 1.0 / math.sqrt(3.0)
        most = bounds.fastest, share * bounds.acceleration, share * bounds.jerk
        low, high = box or (3 * [-math.inf], 3 * [math.inf])
        axes = [Axis(columns[axis], *most, low[axis], high[axis]) for axis in range(3)]
        return cls(pose, tuple(columns), bounds, tuple(axes))

    @property
    def places(self) -> tuple[int, ...]:
        """Columns of a `Motion`."""
        return self.columns[:3]

    def way(self, begin: Float64Array, end: Float64Array) -> list[float]:
        """Return how far it is from one action `[action_dim]` to another."""
        before, after = begin[[*self.columns]], end[[*self.columns]]
        way = after - before
        if len(way) == 4:
            turn = multiply(after, before * INVERSE)
            way = ROTATION.of_quaternions(turn[np.newaxis])[0]
        found: list[float] = way.tolist()
        return found

    def go(self, begin: Float64Array, way: Sequence[float]) -> Float64Array:
        """Return the columns of the action that is so far from another `[action_dim]`."""
        before = begin[[*self.columns]]
        if len(before) == 4:
            return multiply(ROTATION.to_quaternions(np.array([way]))[0], before)
        moved: Float64Array = before + way
        return moved

    def advance(self, target: PoseTarget, velocity: list[float], period_s: float) -> list[float] | None:
        """Return the next velocity, None where the direct step breaks no bound. As of `Axis`, by vectors."""
        places, way, fastest, follows = target[:4]
        most, direct = self.bounds.acceleration * period_s, [one / period_s for one in way]
        near = most * SLACK + TINY
        is_within = (
            math.dist(direct, velocity) <= near
            and math.dist(direct, follows) <= near
            and math.hypot(*direct) <= fastest * SLACK + TINY
        )
        if is_within and not any(self._leaving(places, direct, period_s)):
            return None
        wanted = self.catch_up(target, period_s)
        changes = shorten([after - before for after, before in zip(wanted, velocity, strict=True)], most)
        found = [before + change for before, change in zip(velocity, changes, strict=True)]
        leaving = self._leaving(places, found, period_s)
        if not any(leaving):
            return found
        # What leaves the box slows down as fast as it may; the rest of the bound is for the others.
        speeds = [v if leaves else 0.0 for v, leaves in zip(velocity, leaving, strict=True)]
        brakes = shorten(speeds, most)
        rest = math.sqrt(max(0.0, most**2 - math.hypot(*brakes) ** 2))
        others = shorten([0.0 if leaves else c for c, leaves in zip(changes, leaving, strict=True)], rest)
        return [v - b + c for v, b, c in zip(velocity, brakes, others, strict=True)]

    def catch_up(self, target: PoseTarget, period_s: float) -> list[float]:
        """Return the velocity that catches up with a target, whatever the present one is."""
        lacks = [one - period_s * speed for one, speed in zip(target.way, target.follows, strict=True)]
        distance = math.hypot(*lacks)
        rate = brake(distance, self.bounds.acceleration, period_s) / distance if distance else 0.0
        wanted = [v + rate * lack for v, lack in zip(target.follows, lacks, strict=True)]
        return shorten(wanted, target.fastest)

    def _leaving(self, places: Sequence[float], velocity: Sequence[float], period_s: float) -> list[bool]:
        """Return which axes leave the box if those that do slow down together, as late as may be."""
        leaving = [True] * 3
        for _ in range(2):  # of all axes, then of those alone that might leave then
            speed = math.hypot(*(v for v, leaves in zip(velocity, leaving, strict=True) if leaves))
            if not speed:
                return [False] * 3
            braking = braking_way(speed, self.bounds.acceleration, period_s) / speed
            leaving = [
                leaves and axis.leaves(place + (period_s + braking) * v, v)
                for axis, place, v, leaves in zip(self.axes, places, velocity, leaving, strict=True)
            ]
        return leaving


def find_axes(actions: Actions) -> list[Axis]:
    """Return the actions outside of poses whose accelerations are bounded, also those of stops."""
    found = []
    for column, name in enumerate(actions.names):
        kind, limit = actions.kind_of(name), actions.limit_of(name)
        most, jerk, stop = (
            bound or math.inf for bound in (limit.max_acceleration, limit.max_jerk, limit.max_deceleration)
        )
        ends = (limit.min, limit.max, stop)
        if kind == "position" and min(most, stop) < math.inf:
            found.append(Axis(column, limit.fastest, most, jerk, *ends))
        elif kind == "velocity" and min(most, stop) < math.inf:
            ends = (max(limit.min, -limit.fastest), min(limit.max, limit.fastest), stop)
            found.append(Axis(column, most, jerk, math.inf, *ends, is_velocity=True))
    return found


def find_pose_axes(actions: Actions) -> list[PoseAxes]:
    """Return the positions and orientations of poses whose accelerations are bounded."""
    found = []
    for title, pose in actions.poses.items():
        columns = [actions.names.index(name) for name in pose.names]
        if (line := pose.max_acceleration) is not None:
            bounds = Axis(columns[0], pose.max_velocity, line, pose.max_jerk or math.inf)
            found.append(PoseAxes.of(title, columns[:3], bounds, pose.min, pose.max))
        if (arc := pose.max_angular_acceleration) is not None:
            bounds = Axis(columns[3], pose.max_angular_velocity, arc, pose.max_angular_jerk or math.inf)
            found.append(PoseAxes.of(title, columns[3:], bounds))
    return found


def find_bounds(actions: Actions) -> list[Axis]:
    """Return the bounds of all of these, of a pose's position or orientation along any line."""
    return [*find_axes(actions), *(pose.bounds for pose in find_pose_axes(actions))]


def brake(distance: float, acceleration: float, period_s: float) -> float:
    """Return the largest velocity from which braking in ticks ends within a distance."""
    least = acceleration * period_s * period_s
    if distance <= least:
        return distance / period_s
    ticks = math.floor(0.5 * (math.sqrt(1.0 + 8.0 * distance / least) - 1.0))
    return distance / ((ticks + 1) * period_s) + 0.5 * ticks * acceleration * period_s


def braking_way(speed: float, acceleration: float, period_s: float) -> float:
    """Return how far the ticks after one of a speed lead, when each is slower than the one before."""
    slower = acceleration * period_s
    ticks = math.floor(speed / slower)
    return period_s * (ticks * speed - 0.5 * slower * ticks * (ticks + 1)) if ticks else 0.0


def slow_down(velocity: float, change: float) -> float:
    """Return a velocity that is slower by a change, or rests."""
    return math.copysign(max(0.0, abs(velocity) - change), velocity)


def shorten(vector: Sequence[float], most: float) -> list[float]:
    """Return a vector no longer than `most`."""
    length = math.hypot(*vector)
    return [most / length * x for x in vector] if length > most else list(vector)
