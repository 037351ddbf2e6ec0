# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The bounds of acceleration and jerk of all actions of a robot."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from remote_inference.base.contract.actions import Actions
from remote_inference.robot.command import BoolArray, Float64Array
from remote_inference.robot.safety.acceleration import (
    ACCELERATION_LIMIT,
    JERK_LIMIT,
    Axis,
    Motion,
    PoseAxes,
    PoseTarget,
    Target,
    braking_way,
    find_axes,
    find_bounds,
    find_pose_axes,
    shorten,
    slow_down,
)
from remote_inference.robot.safety.jerk import JerkPlanner, Motion4, end_braking, peak
from remote_inference.robot.safety.trend import Trend

Lead: TypeAlias = tuple[float, Sequence[float], bool]

ROUNDING = 1e-6  # of a command that counts as unaltered
ASIDE = 0.05  # of the square of a pose's velocity, which no direction takes from the others
SETTLED = 3  # steps in a row without a change, after which a motion is known by its points


class MotionBounds:
    """Bounds acceleration and jerk of the actions that have such bounds; others pass as they are."""

    def __init__(self, actions: Actions, period_s: float) -> None:
        """Build it. Raises UserError where a contract bounds a jerk and Ruckig is not installed."""
        self._period_s = period_s
        self._axes, self._poses = find_axes(actions), find_pose_axes(actions)
        self.exist = bool(self._axes or self._poses)
        self.brakes = any(axis.deceleration < math.inf for axis in self._axes)
        """Whether some stops take time."""
        bounds = find_bounds(actions)
        has_jerk = any(axis.jerk < math.inf for axis in bounds)
        limits = [actions.limit_of(name) for name in actions.names]
        self._limits = np.array([limit.min for limit in limits]), np.array([limit.max for limit in limits])
        is_velocity = [actions.kind_of(name) == "velocity" for name in actions.names]
        self._fastest = np.where(is_velocity, [limit.fastest for limit in limits], math.inf)
        self._most_jerk = np.full(len(limits), math.inf)
        self._most_jerk[[axis.column for axis in self._axes]] = [axis.jerk for axis in self._axes]
        spans_s = [4.0 * axis.acceleration / axis.jerk for axis in bounds if axis.jerk < math.inf]
        self._trend = Trend(max(spans_s, default=0.0), period_s)
        self._planner = JerkPlanner(self._trend, period_s) if has_jerk else None
        self.ahead = self._trend.ticks
        """Ticks ahead of the present one, at which `ease` looks where the plan goes on."""

    def look_ahead(self, points: Float64Array) -> Float64Array:
        """Return where the plan goes on after each of its points `[rows, ticks, action_dim]`."""
        found: Float64Array = self._trend.extend(points).swapaxes(0, 1)
        return found

    def clip(self, points: Float64Array, velocity_scale: float) -> Float64Array:
        """Return points `[..., action_dim]` within the limits of positions, or of velocities."""
        lowest, highest = self._limits
        most = velocity_scale * self._fastest
        found: Float64Array = np.clip(points, np.maximum(lowest, -most), np.minimum(highest, most))
        return found

    def ease(
        self,
        wanted: Float64Array,
        slow: Float64Array,
        start: Float64Array,
        motion: Motion,
        *,
        onward: Float64Array | None,
        velocity_scale: float,
    ) -> tuple[Float64Array, Motion, tuple[str, ...]]:
        """Return the action `[action_dim]` within the bounds, how it moves, and the rules that altered it.

        wanted: within the limits of positions. slow: the same, within those of velocities. onward
        `[ticks, action_dim]`: where the ticks of `ahead` will lead; None: it rests at what is wanted.
        """
        found, last, rules = slow.copy(), motion.rows, set()
        leads = self._find_leads(wanted, slow, onward)
        after = np.zeros_like(last)
        for axis in self._axes:
            column = axis.column
            target = float((slow if axis.is_velocity else wanted)[column])
            place, before = float(start[column]), tuple(last[:, column].tolist())
            wants = Target(place, target - place, axis.allowed(velocity_scale), *leads[column])
            broken, moved = self._move(axis, wants, before)
            after[:, column] = moved
            found[column] = place + self._period_s * moved[0] if broken else target
            if broken and abs(found[column] - slow[column]) > ROUNDING:
                rules.add(broken)
        targets = self._find_targets(wanted, start, onward, velocity_scale)
        for pose, goal in zip(self._poses, targets, strict=True):
            columns, places = [*pose.columns], [*pose.places]
            broken, rows = self._move_pose(pose, goal, last[:, places])
            after[:, places], found[columns] = rows, wanted[columns]
            if broken:
                found[columns] = pose.go(start, [self._period_s * v for v in rows[0]])
                if np.abs(found[columns] - slow[columns]).max() > ROUNDING:
                    rules.add(broken)
        return found, Motion(*after), tuple(sorted(rules))

    def _find_leads(
        self, wanted: Float64Array, slow: Float64Array, onward: Float64Array | None
    ) -> list[Lead]:
        """Return of each action `follows`, `ways` and `is_rough` of a `Target`."""
        if onward is None:
            return [(0.0, (), False)] * len(wanted)
        is_velocity = [axis.column for axis in self._axes if axis.is_velocity]
        begin = wanted.copy()
        begin[is_velocity] = slow[is_velocity]
        ways = onward - begin
        follows, each = (ways[0] / self._period_s).tolist(), ways.T.tolist()
        return list(zip(follows, each, self._find_rough(ways).tolist(), strict=True))

    def _find_rough(self, ways: Float64Array) -> BoolArray:
        """Return what of some ways to the samples `[samples, ..., action_dim]` is rough."""
        if self._planner is None:
            return np.zeros(ways.shape[1:], bool)
        return self._trend.is_rough(ways, self._most_jerk)

    def _move(self, axis: Axis, target: Target, last: Motion4) -> tuple[str, Motion4]:
        """Return the bound that the direct step breaks, "" for none, and the next motion."""
        period_s, speed = self._period_s, abs(last[0]) - self._period_s * axis.acceleration
        follows = max(-axis.fastest, min(axis.fastest, target.follows))
        # What is too fast already must slow down no faster than anything else.
        target = target._replace(follows=follows, fastest=max(target.fastest, speed))
        found = axis.advance(target, last[0], period_s)
        broken = "" if found is None else ACCELERATION_LIMIT
        if axis.jerk < math.inf and self._planner is not None:
            if not broken and self._planner.breaks(axis, target, last):
                broken = JERK_LIMIT
            if broken:
                return broken, self._planner.plan(axis, target, last)
        return broken, _motion_at(target.way / period_s if found is None else found, last[0], period_s)

    def _find_targets(
        self, wanted: Float64Array, start: Float64Array, onward: Float64Array | None, velocity_scale: float
    ) -> list[PoseTarget]:
        """Return what is wanted of each of the poses: position and orientation arrive together."""
        ways = [pose.way(start, wanted) for pose in self._poses]
        times_s: dict[str, float] = {}  # of the slower one
        for pose, way in zip(self._poses, ways, strict=True):
            times_s[pose.pose] = max(times_s.get(pose.pose, 0.0), math.hypot(*way) / pose.bounds.fastest)
        targets = []
        for pose, way in zip(self._poses, ways, strict=True):
            time_s, follows, each, rough = times_s[pose.pose], [0.0] * 3, 3 * [()], 3 * [False]
            fastest = velocity_scale * (math.hypot(*way) / time_s if time_s else pose.bounds.fastest)
            if onward is not None:
                ahead = np.array([pose.way(wanted, row) for row in onward])
                follows = shorten((ahead[0] / self._period_s).tolist(), pose.bounds.fastest)
                each = ahead.T.tolist()
                if pose.bounds.jerk < math.inf:
                    most_jerk = np.array([axis.jerk for axis in pose.axes])
                    rough = self._trend.is_rough(ahead, most_jerk).tolist()
            targets.append(PoseTarget(start[[*pose.places]].tolist(), way, fastest, follows, each, rough))
        return targets

    def _move_pose(
        self, pose: PoseAxes, target: PoseTarget, last: Float64Array
    ) -> tuple[str, list[list[float]]]:
        """Return the bound that the direct step breaks, "" for none, and the rows of the next motion."""
        period_s, bounds, before = self._period_s, pose.bounds, last[0].tolist()
        speed = math.hypot(*before) - bounds.acceleration * period_s
        target = target._replace(fastest=max(target.fastest, speed))
        found = pose.advance(target, before, period_s)
        broken = "" if found is None else ACCELERATION_LIMIT
        velocity = [one / period_s for one in target.way] if found is None else found
        changes = [(after - one) / period_s for after, one in zip(velocity, before, strict=True)]
        if bounds.jerk < math.inf and self._planner is not None:
            each = list(map(Target, target.places, target.way, 3 * [target.fastest], *target[3:]))
            motions = [tuple(column) for column in last.T.tolist()]
            onward = [(after - one) / period_s for after, one in zip(target.follows, velocity, strict=True)]
            steps = list(zip(pose.axes, each, motions, strict=True))
            if not broken and (
                math.dist(changes, last[1]) > bounds.jerk * period_s
                or math.dist(onward, changes) > bounds.jerk * period_s
                or any(self._planner.passes_limits(*step) for step in steps)
            ):
                broken = JERK_LIMIT
            if broken:
                peaks = [peak(motion[2], motion[3], axis.jerk) for axis, _, motion in steps]
                shares = _share(target.fastest, pose.catch_up(target, period_s), peaks)
                moved = [
                    self._planner.plan(axis, one._replace(fastest=share), last)
                    for (axis, one, last), share in zip(steps, shares, strict=True)
                ]
                return broken, np.array(moved).T.tolist()
        ends = [u + 0.5 * period_s * a for u, a in zip(velocity, changes, strict=True)]
        return broken, [velocity, changes, ends, changes]

    def lead(
        self,
        points: Float64Array,
        slow: Float64Array,
        begin: Float64Array,
        motion: Motion,
        velocity_scale: float,
    ) -> tuple[Float64Array, dict[str, BoolArray]]:
        """Return points `[rows, action_dim]` as `ease` finds them one after another, and what alters which.

        points: within the limits of positions. slow: the same, within those of velocities. begin, motion: of
        the command before them. After the last one the plan goes on as before. Not for poses.
        """
        found, period_s, rows = slow.copy(), self._period_s, motion.rows
        altered = {rule: np.zeros(len(points), bool) for rule in (ACCELERATION_LIMIT, JERK_LIMIT)}
        begins = points.copy()
        for axis in self._axes:
            if axis.is_velocity:
                begins[:, axis.column] = slow[:, axis.column]
        ways = self.clip(self._trend.extend(begins), velocity_scale) - begins
        rough = self._find_rough(ways)
        for axis in self._axes:
            column = axis.column
            wanted, each, is_rough = (
                begins[:, column],
                ways[:, :, column].T.tolist(),
                rough[:, column].tolist(),
            )
            last: Motion4 = tuple(rows[:, column].tolist())
            fastest = axis.allowed(velocity_scale)
            steep = self._find_steep(axis, fastest, wanted, float(begin[column]), last)
            row, place, targets, unaltered = 0, float(begin[column]), wanted.tolist(), SETTLED
            while row < len(targets):
                if unaltered >= SETTLED:  # until the next point that may be altered
                    left = np.flatnonzero(steep[row:])
                    skipped = int(left[0]) if len(left) else len(targets) - row
                    if skipped:
                        found[row : row + skipped, column] = wanted[row : row + skipped]
                        row += skipped
                        if row == len(targets):
                            break
                        known = np.concatenate([begin[[column]], found[:row, column]])[-SETTLED - 1 :]
                        last, place = _motion_after(known, period_s, last), targets[row - 1]
                way = targets[row] - place
                lead = each[row][0] / period_s, each[row], is_rough[row]
                broken, last = self._move(axis, Target(place, way, fastest, *lead), last)
                before, place = place, place + period_s * last[0] if broken else targets[row]
                found[row, column] = place
                unaltered = 0 if broken else unaltered + 1
                if broken:
                    most = period_s * fastest
                    step = way if axis.is_velocity else max(-most, min(most, way))
                    altered[broken][row] |= abs(place - before - step) > ROUNDING
                row += 1
        return found, altered

    def _find_steep(
        self, axis: Axis, fastest: float, points: Float64Array, begin: float, last: Motion4
    ) -> BoolArray:
        """Return the mask of points that may be altered although those before them were not."""
        period_s, most = self._period_s, axis.acceleration
        velocity = np.diff(points, prepend=begin) / period_s
        change = np.diff(velocity, prepend=last[0]) / period_s
        passes = (np.abs(change) <= most) & (np.abs(velocity) <= fastest)
        passes &= np.abs(np.diff(change, prepend=last[1])) <= axis.jerk * period_s
        passes[:-1] &= passes[1:]  # it leads on with a motion that the next step can have
        passes[-1:] &= np.abs(change[-1:]) <= axis.jerk * period_s
        # Where it rests at the latest: braking begins a tick later, or a jerk's time.
        late_s = period_s + (2.0 * most / axis.jerk if axis.jerk < math.inf else 0.0)
        rest = points + velocity * np.abs(velocity) / most + velocity * late_s
        if axis.jerk < math.inf:  # its acceleration ends before it is too fast
            passes &= np.abs(velocity) + period_s * np.abs(change) + change**2 / axis.jerk <= fastest
        steep: BoolArray = ~(passes & (rest >= axis.low) & (rest <= axis.high))
        return steep

    def motion_of(self, points: Float64Array, last: Motion | None = None) -> Motion:
        """Return how the last of some points `[1 to 4, action_dim]` moved that were commanded as they are.

        last: how the first one did, None if nobody knows.
        """
        found = last
        for begin, end in itertools.pairwise(points):
            velocity = (end - begin) / self._period_s
            for pose in self._poses:
                velocity[[*pose.places]] = np.array(pose.way(begin, end)) / self._period_s
            change = (velocity - (velocity if found is None else found.velocity)) / self._period_s
            found = Motion(velocity, change, velocity + 0.5 * self._period_s * change, change)
        return found or Motion.rest(points.shape[1])

    def stop(self, last: Float64Array, motion: Motion) -> tuple[Float64Array, Motion, BoolArray] | None:
        """Return a slower step after the last command `[action_dim]`, its motion, and the mask of what slows.

        None once nothing moves that must not stop at once.
        """
        found, moved, slows = last.copy(), Motion.rest(len(last)), np.zeros(len(last), bool)
        for axis in self._axes:
            column, change = axis.column, axis.deceleration * self._period_s
            if change == math.inf:
                continue
            speeds = last if axis.is_velocity else motion.velocity
            slows[column], slower = speeds[column], slow_down(speeds[column], change)
            if not axis.is_velocity and axis.acceleration < math.inf:
                way = braking_way(abs(slower), axis.deceleration, self._period_s)
                way = self._period_s * slower + math.copysign(way, slower)
                if axis.leaves(last[column] + way, slower):
                    slower = slow_down(speeds[column], max(change, axis.acceleration * self._period_s))
            step = slower - last[column] if axis.is_velocity else self._period_s * slower
            found[column] = min(max(last[column] + step, axis.low), axis.high)
            speed = (found[column] - last[column]) / self._period_s
            # A stop may jerk, and so may its end: a chunk that ends it finds what can still come to rest.
            if axis.is_velocity:
                rate = end_braking(found[column], min(axis.deceleration, axis.fastest), axis.acceleration)
                moved.velocity[column] = moved.end_velocity[column] = rate
                continue
            rate = min(abs(speed - speeds[column]) / self._period_s, axis.acceleration)
            braking = end_braking(speed, rate, axis.jerk)
            moved.velocity[column] = speed
            moved.acceleration[column] = moved.end_acceleration[column] = braking
            moved.end_velocity[column] = slow_down(speed, 0.5 * self._period_s * abs(braking))
        return (found, moved, slows) if slows.any() else None

    def way_s(self, begin: Float64Array, end: Float64Array) -> float:
        """Return the time [s] that the way from one action to another takes, as far as its bounds say."""
        axes = [axis for axis in self._axes if not axis.is_velocity]
        ways = [(axis, abs(float(end[axis.column] - begin[axis.column]))) for axis in axes]
        ways += [(pose.bounds, math.hypot(*pose.way(begin, end))) for pose in self._poses]
        return max((axis.way_s(way) for axis, way in ways if math.isfinite(way)), default=0.0)


def _share(fastest: float, wanted: list[float], peaks: list[float]) -> list[float]:
    """Return how fast each of three axes may be: together as `fastest`, and nearly that along one of them.

    What must get as fast as its peak keeps that, and slows down where more is left for others.
    """
    speed, left = math.hypot(*wanted), max(0.0, fastest**2 - math.hypot(*peaks) ** 2)
    parts = [(1.0 - ASIDE) * (one / speed) ** 2 + ASIDE / 3.0 if speed else 1.0 / 3.0 for one in wanted]
    shares = [fastest * math.sqrt(part) for part in parts]
    rising = sum(part for part, share, most in zip(parts, shares, peaks, strict=True) if most < share)
    return [
        math.sqrt(most**2 + left * part / rising) if most < share else share
        for part, share, most in zip(parts, shares, peaks, strict=True)
    ]


def _motion_after(points: Float64Array, period_s: float, last: Motion4) -> Motion4:
    """Return the motion of the last of some points. last: before the first, where there are few."""
    for begin, end in itertools.pairwise(points.tolist()):
        last = _motion_at((end - begin) / period_s, last[0], period_s)
    return last


def _motion_at(velocity: float, before: float, period_s: float) -> Motion4:
    """Return the motion of a step at a velocity, after one at another."""
    change = (velocity - before) / period_s
    return velocity, change, velocity + 0.5 * period_s * change, change
