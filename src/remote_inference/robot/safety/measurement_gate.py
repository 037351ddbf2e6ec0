# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which measurements can be true: one where its joint cannot have moved to is not believed at once.

A validation gate, as of state estimators, with bounds from the contract in place of a covariance. Per joint,
a pose counting as one, a message is

- consistent: within reach of what is believed. It becomes what is believed;
- contradicting: out of reach, beyond the limits, or the first after a gap. Nothing uses it;
- confirmed: of contradicting messages that agree with one another for a time, none consistent between them.
  Somebody has moved the joint, or its drives are back: it becomes what is believed. But not if it came by a
  leap that no hand and no drive can make. That is reported: an encoder lost a turn, or another publishes it.

Within reach is what lies about the way from what is believed to the command in force:
(|v - p| + |v - c| - |p - c|) / 2 <= tolerance + speed * time, for a measurement v, the believed p and a
command c. The time never counts for more than a gap: a reach does not grow with silence. Nor with the number
of messages: what one of them was farther off the way than its time allows, those after it cannot be again
(a token bucket, which fills with speed * time).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.contract.actions import Actions
from remote_inference.robot.command import BoolArray, Float64Array
from remote_inference.robot.pose_geometry import ActionMasks

Times = NDArray[np.int64]

BEYOND = 0.05  # of the range between the limits, by which a joint may be measured outside them
TOLERANCE = 0.01  # of the range: noise
OVERSPEED = 1.5  # times max_velocity, of a joint that is commanded
HAND_SPEED = 3.0  # of a joint that is not commanded [rad/s] ...
HAND_SPEED_M = 1.0  # ... or [m/s]
JITTER_S = 0.02  # by which a message may be early after the one before
BURST_S = 0.1  # messages that waited for one another come within this time
GAP_S = 0.3  # without a message, or GAP_INTERVALS of a slower sensor
GAP_INTERVALS = 2
SLOWEST_NS = 1_000_000_000  # longer than this between two messages is no interval
CONFIRM_S = 0.25  # of agreement, until a contradiction is believed
FIRST_S = 0.5  # the same where nothing is believed, and farther away than a hand gets within a gap
LEAP_SPEEDS = 10.0  # times max_velocity, from one message to the next ...
LEAP = math.pi / 2  # ... and at least [rad]: no hand and no drive moves a joint so
LEAP_M = 0.5  # the same [m]
TURN = 2.0 * math.pi


@dataclass(frozen=True)
class Belief:
    """What is known of each joint, arrays `[action_dim]`; times are of contents and stamps [ns].

    position: what is believed, NaN before the first trust, since `at_ns` (by its stamp `stamp_ns`). seen_ns,
    seen_stamp_ns: of the newest message, interval_ns after the one before it. after_gap: what came since a
    gap is not confirmed yet. other, other_ns, other_stamp_ns: the newest contradiction, open since
    `since_ns`, of so many messages as `count` says, which came by a leap as far as `leap` says, 0: by none.
    spent: how far off the way the last messages were, less what their time allowed; below 0: left over.
    implausible: messages so far that contradicted what was believed, or one another before the first trust;
    those after a gap are not counted.
    leaps: the joints whose leap the newest message has confirmed, and how far each was [unit].
    """

    position: Float64Array
    at_ns: Times
    stamp_ns: Times
    seen_ns: Times
    seen_stamp_ns: Times
    interval_ns: Times
    after_gap: BoolArray
    other: Float64Array
    other_ns: Times
    other_stamp_ns: Times
    since_ns: Times
    count: Times
    leap: Float64Array
    spent: Float64Array
    implausible: int = 0
    leaps: tuple[tuple[str, float], ...] = ()

    @classmethod
    def none(cls, action_dim: int) -> Belief:
        """Return the belief before the first message."""
        nan, never = np.full(action_dim, np.nan), np.zeros(action_dim, np.int64)
        gap = np.zeros(action_dim, bool)
        return cls(nan, *5 * (never,), gap, nan, *4 * (never,), *2 * (np.zeros(action_dim),))

    def without(self, joints: BoolArray) -> Belief:
        """Return the same, with nothing known of some joints."""
        none = Belief.none(len(joints))
        names = [field.name for field in fields(self) if field.name not in ("implausible", "leaps")]
        of_none = {name: np.where(joints, getattr(none, name), getattr(self, name)) for name in names}
        return replace(self, **of_none)


@dataclass(frozen=True)
class _Message:
    """What a message says, arrays `[action_dim]`.

    said: positions, unified with the belief. new: mask of the joints that it measures. since_ns: since the
    message before it. longest_ns: that count as time to move. impossible: mask of joints beyond their limits,
    or without an orientation. goal: the command in force, or what is believed. slack: tolerance, and a step
    where joints are commanded.
    """

    said: Float64Array
    times_ns: Times
    stamps_ns: Times
    new: BoolArray
    since_ns: Times
    longest_ns: Times
    after_gap: BoolArray
    impossible: BoolArray
    goal: Float64Array
    slack: Float64Array


@dataclass(frozen=True)
class _Reach:
    """How far a message is from what is believed, and from the goal, arrays `[action_dim]`.

    known: mask of the joints whose position is believed and not after a gap. consistent: those within reach.
    spent: as of `Belief`, of these.
    """

    way: Float64Array
    to_goal: Float64Array
    known: BoolArray
    consistent: BoolArray
    spent: Float64Array


class MeasurementGate:
    """The bounds of a contract's joints. Holds no state: `judge` returns what is believed from then on."""

    def __init__(self, actions: Actions, masks: ActionMasks, period_s: float) -> None:
        """period_s: of a control tick, by whose step a commanded joint may be ahead."""
        self._names = actions.names
        self._holds = masks.holds
        self._poses = masks.poses
        limits = [actions.limit_of(name) for name in actions.names]
        low, high = (np.array([getattr(limit, end) for limit in limits]) for end in ("min", "max"))
        fastest = np.array([limit.max_velocity or 0.0 for limit in limits])
        in_metres = np.array([actions.unit(name) == "m" for name in actions.names])
        span, is_bounded = high - low, masks.is_position.copy()
        columns = zip(actions.poses.values(), self._poses.places, self._poses.turns, strict=True)
        for pose, places, turns in columns:
            fastest[places], fastest[turns] = pose.max_velocity, pose.max_angular_velocity
            in_metres[places], in_metres[turns] = True, False
            span[turns], is_bounded[places] = math.pi, True
        margin = np.where(is_bounded, BEYOND * span, np.inf)
        self._low, self._high = low - margin, high + margin
        self._tolerance, self._step = TOLERANCE * span, fastest * period_s
        self._driven = OVERSPEED * fastest
        stated = np.array([limit.max_measured_velocity or 0.0 for limit in limits])
        hand = np.where(in_metres, HAND_SPEED_M, HAND_SPEED)
        self._by_hand = np.maximum.reduce([hand, self._driven, stated])
        self._driven = np.maximum(self._driven, stated)
        self._leap_speed, self._least_leap = LEAP_SPEEDS * fastest, np.where(in_metres, LEAP_M, LEAP)
        self._wraps = np.array([limit.wraps for limit in limits])

    def find_impossible(self, measured: Float64Array) -> BoolArray:
        """Return the mask of joints that are measured too far outside their limits; NaN is not measured."""
        outside: BoolArray = (measured < self._low) | (measured > self._high)
        return outside

    def doubted(self, belief: Belief) -> BoolArray:
        """Return the mask of positions and poses whose newest message, or of which none, is believed."""
        doubted: BoolArray = self._holds & (np.isnan(belief.position) | (belief.at_ns != belief.seen_ns))
        return doubted

    def judge(
        self,
        belief: Belief,
        measured: Float64Array,
        times_ns: Times,
        stamps_ns: Times,
        command: Float64Array | None,
        *,
        by_hand: bool,
    ) -> Belief:
        """Return what is believed once this is measured, all `[action_dim]`.

        measured: NaN where nothing is; a pose whose quaternion says no orientation is a contradiction.
        times_ns: of each content, monotonic; a joint's time that is not later than its last one is nothing
        new. stamps_ns: of the driver's clock, 0 without. command: the last one
        while joints may be on their way to it, None when there is none. by_hand: nobody leads the joints now,
        so that a hand may.
        """
        if not self._find_new(belief, measured, times_ns).any():
            return replace(belief, leaps=()) if belief.leaps else belief
        message = self._read(belief, measured, times_ns, stamps_ns, command)
        speed = self._by_hand if by_hand or command is None else self._driven
        return self._update(belief, message, self._check_reach(belief, message, speed))

    def _find_new(self, belief: Belief, measured: Float64Array, times_ns: Times) -> BoolArray:
        new: BoolArray = (times_ns > belief.seen_ns) & self._holds & ~np.isnan(measured)
        return new

    def _read(
        self,
        belief: Belief,
        measured: Float64Array,
        times_ns: Times,
        stamps_ns: Times,
        command: Float64Array | None,
    ) -> _Message:
        """Return what a message says, and what bounds how far its joints can have moved."""
        new = self._poses.whole(self._find_new(belief, measured, times_ns))
        said = self._unify(measured, belief.position)
        since_ns, stamped_ns = times_ns - belief.seen_ns, stamps_ns - belief.seen_stamp_ns
        longest_ns = np.maximum(round(GAP_S * 1e9), GAP_INTERVALS * belief.interval_ns)
        # Messages that waited come late after one another, and their stamps do not.
        is_stamped = (stamps_ns > 0) & (belief.seen_stamp_ns > 0) & (stamped_ns > 0)
        quiet_ns = np.where(is_stamped, np.minimum(since_ns, stamped_ns), since_ns)
        return _Message(
            said,
            times_ns,
            stamps_ns,
            new,
            since_ns,
            longest_ns,
            after_gap=belief.after_gap | (new & (quiet_ns > longest_ns)),
            impossible=self._poses.whole(new & (self.find_impossible(said) | np.isnan(said))),
            goal=belief.position if command is None else command,
            slack=self._tolerance + (0.0 if command is None else self._step),
        )

    def _check_reach(self, belief: Belief, message: _Message, speed: Float64Array) -> _Reach:
        """Return which joints are within reach of what is believed. speed: that is allowed now."""
        said, whole = message.said, self._poses.whole
        way, to_goal = self._way(belief.position, said), self._way(message.goal, said)
        beyond = (way + to_goal - self._way(belief.position, message.goal)) / 2.0
        since_ns = message.times_ns - belief.at_ns
        late_s = _elapsed_s(since_ns, message.stamps_ns, belief.stamp_ns, message.longest_ns) - JITTER_S
        kept = np.clip(1.0 - late_s / BURST_S, 0.0, 1.0) * np.maximum(-belief.spent, 0.0)
        spent = np.maximum(belief.spent, 0.0) - kept - speed * late_s + np.maximum(beyond, 0.0)
        is_far = whole(spent > message.slack + speed * JITTER_S)
        # What a silence has left over, messages may need that have waited with this one.
        left_over = kept + speed * np.maximum(late_s - belief.interval_ns / 1e9, 0.0)
        known = ~np.isnan(belief.position) & ~message.after_gap
        consistent = message.new & known & ~message.impossible & ~is_far
        return _Reach(way, to_goal, known, consistent, np.maximum(spent, -left_over))

    def _update(self, belief: Belief, message: _Message, reach: _Reach) -> Belief:
        """Return what is believed after a message, by which joints are within reach."""
        whole, new, times_ns, said = self._poses.whole, message.new, message.times_ns, message.said
        is_known = ~np.isnan(belief.position)
        # What agrees with an open contradiction stays one, however far the reach has grown meanwhile.
        to_other = self._way(belief.other, said)
        since_ns = times_ns - belief.other_ns
        other_s = _elapsed_s(since_ns, message.stamps_ns, belief.other_stamp_ns, message.longest_ns)
        is_near = ~whole(to_other > message.slack + self._by_hand * other_s)
        agrees = new & ~message.impossible & (belief.count > 0) & is_near
        consistent = reach.consistent & ~whole(agrees & (to_other < reach.way))
        against = new & ~consistent
        begins = against & ~agrees
        far = np.maximum(self._leap_speed * np.maximum(message.since_ns, 0) / 1e9, self._least_leap)
        leap = np.where(begins, np.where(is_known & (reach.way > far), reach.way, 0.0), belief.leap)
        began_ns = np.where(begins, times_ns, belief.since_ns)
        count = np.where(begins, np.where(message.impossible, 0, 1), belief.count + (against & agrees))
        # It may be anywhere on its way to the command by now.
        farthest = np.maximum(reach.way, reach.to_goal)
        is_elsewhere = whole(~is_known | (farthest > message.slack + self._by_hand * GAP_S))
        lasts_ns = np.where(is_elsewhere, round(FIRST_S * 1e9), round(CONFIRM_S * 1e9))
        confirmed = against & agrees & ~whole(against & ((count < 2) | (times_ns - began_ns < lasts_ns)))
        leapt = confirmed & whole(confirmed & (leap > 0.0))
        trusted = consistent | (confirmed & ~leapt)
        is_interval = new & (belief.seen_ns > 0) & (message.since_ns < SLOWEST_NS)
        is_news = against & reach.known | begins & ~is_known & (belief.count > 0)
        return Belief(
            np.where(trusted, said, belief.position),
            np.where(trusted, times_ns, belief.at_ns),
            np.where(trusted, message.stamps_ns, belief.stamp_ns),
            np.where(new, times_ns, belief.seen_ns),
            np.where(new, message.stamps_ns, belief.seen_stamp_ns),
            np.where(is_interval, message.since_ns, belief.interval_ns),
            message.after_gap & ~trusted,
            np.where(against, said, belief.other),
            np.where(against, times_ns, belief.other_ns),
            np.where(against, message.stamps_ns, belief.other_stamp_ns),
            began_ns,
            np.where(trusted, 0, count),
            leap,
            np.where(consistent, reach.spent, np.where(trusted, 0.0, belief.spent)),
            belief.implausible + bool(is_news.any()),
            tuple((self._names[at], float(leap[at])) for at in np.flatnonzero(leapt & (leap > 0.0))),
        )

    def _unify(self, measured: Float64Array, believed: Float64Array) -> Float64Array:
        """Return what is measured, with unit quaternions; what wraps, in a turn that its limits allow.

        That is the turn nearest to the belief, and without one to the middle between the limits. A pose
        without an orientation is NaN.
        """
        said = measured
        if self._wraps.any():
            nearest = np.where(np.isnan(believed), 0.5 * (self._low + self._high), believed)
            turned = measured + TURN * np.round((nearest - measured) / TURN)
            above, below = turned > self._high, turned < self._low
            others = turned - TURN * above + TURN * below
            turned = np.where(self.find_impossible(others), turned, others)
            said = np.where(self._wraps, turned, measured)
        if self._poses.exist:
            said = self._poses.normalize(said)
        return said

    def _way(self, begin: Float64Array, end: Float64Array) -> Float64Array:
        """Return how far each joint is from one point to another `[action_dim]`, a pose as a whole.

        A joint that wraps goes the shorter way.
        """
        way: Float64Array = np.abs(end - begin)
        if self._wraps.any():
            way = np.where(self._wraps, np.abs((end - begin + math.pi) % TURN - math.pi), way)
        if self._poses.exist:
            way[self._poses.places] = self._poses.distances(begin, end)[:, np.newaxis]
            way[self._poses.turns] = self._poses.angles(begin, end)[:, np.newaxis]
        return way


def _elapsed_s(since_ns: Times, stamps_ns: Times, before_ns: Times, longest_ns: Times) -> Float64Array:
    """Return the time [s] in which a joint may have moved: the longer one of contents and of stamps."""
    stamped_ns = np.where((stamps_ns > 0) & (before_ns > 0), stamps_ns - before_ns, 0)
    elapsed: Float64Array = np.minimum(np.maximum(since_ns, stamped_ns), longest_ns) / 1e9 + JITTER_S
    return elapsed
