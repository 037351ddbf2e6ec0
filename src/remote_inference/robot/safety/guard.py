# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The last gate before the motor: finite values, then limits of position, velocity, acceleration and jerk."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from remote_inference.base.contract.actions import Actions
from remote_inference.base.policy import Float32Array
from remote_inference.robot.command import BoolArray, Float64Array
from remote_inference.robot.pose_geometry import ActionMasks, PoseRule
from remote_inference.robot.safety.acceleration import ACCELERATION_LIMIT, JERK_LIMIT, Motion
from remote_inference.robot.safety.motion_bounds import ROUNDING, MotionBounds

# -- Switches among the actions: closed or opened by a number, with two thresholds, and not too often ----


class SwitchRule:
    """Says for each switch whether a number closes it, opens it or leaves it; other actions pass as they are.

    A switch is commanded its `min` (open) or its `max` (closed), and nothing else.
    """

    def __init__(self, actions: Actions, masks: ActionMasks) -> None:
        limits = [actions.limit_of(name) for name in actions.names]
        self.places = masks.is_switch
        self.exist = bool(self.places.any())
        self._open = np.array([limit.min for limit in limits])
        self._closed = np.array([limit.max for limit in limits])
        self._closes = np.array(
            [math.inf if one.closes_above is None else one.closes_above for one in limits]
        )
        self._opens = np.array([-math.inf if one.opens_below is None else one.opens_below for one in limits])
        # Before its first command a switch goes to the nearer side: to command nothing is no choice.
        halves = [(one.closes_above or 0.0) + (one.opens_below or 0.0) for one in limits]
        self._middle = 0.5 * np.array(halves)

    def decide(
        self, action: Float64Array, last: Float64Array | None, settling: BoolArray | None
    ) -> tuple[Float64Array, bool]:
        """Return the action `[action_dim]` with its switches closed or opened, and whether a change waits.

        last: the last command, NaN for switches without one. settling: mask of those that must not change.
        """
        nearer = np.where(action >= self._middle, self._closed, self._open)
        stays = nearer if last is None else np.where(np.isfinite(last), last, nearer)
        wanted = np.where(
            action > self._closes, self._closed, np.where(action < self._opens, self._open, stays)
        )
        waits = np.zeros_like(self.places) if settling is None else settling & (wanted != stays)
        wanted = np.where(waits & self.places, stays, wanted)
        return np.where(self.places, wanted, action), bool((waits & self.places).any())


# Rules as they appear in ClientState.guard_names and ExecutedAction.interventions.
AGE = "age"  # source observation older than max_action_age_s
NON_FINITE = "non_finite"  # NaN or infinity; a chunk with one is rejected whole
SHAPE = "shape"  # chunk with another number of rows than the session agreed on
DIMENSION = "dimension"  # chunk with another number of columns than the contract's actions
SENSOR_AGE = "sensor_age"  # a source fell silent, or no fresh position to step from
FOLLOWING_ERROR = "following_error"  # a joint does not follow its commands
JOINT_LIMIT = "joint_limit"
VELOCITY_LIMIT = "velocity_limit"
DWELL = "dwell"  # a switch has changed a moment ago
ORIENTATION = "orientation"  # a quaternion too short to say one
IMPLAUSIBLE = "implausible"  # a measurement where its joint cannot have moved to
RULES = (
    AGE,
    NON_FINITE,
    SHAPE,
    DIMENSION,
    SENSOR_AGE,
    FOLLOWING_ERROR,
    JOINT_LIMIT,
    VELOCITY_LIMIT,
    DWELL,
    ORIENTATION,
    IMPLAUSIBLE,
    ACCELERATION_LIMIT,
    JERK_LIMIT,
)
RATE_LIMITS = (VELOCITY_LIMIT, ACCELERATION_LIMIT, JERK_LIMIT)  # a step is not the one that was wanted


@dataclass(frozen=True)
class Guarded:
    """A checked action `[action_dim]`, None when refused, and the rules that altered or refused it.

    motion: how it moves, where accelerations are bounded; None: nothing says.
    """

    action: Float64Array | None
    interventions: tuple[str, ...] = ()
    motion: Motion | None = None


@dataclass(frozen=True)
class Foreseen:
    """Actions `[rows, action_dim]` as the guard will pass them.

    altered: the rules that will alter some rows, each with the mask `[rows]` of these. asked: the actions
    before the guard. velocity_scale: with which they were checked. velocity: `[action_dim]` of the step to
    the first one, None where accelerations are not bounded.
    """

    actions: Float64Array = field(default_factory=lambda: np.empty((0, 0)))
    altered: tuple[tuple[str, BoolArray], ...] = ()
    asked: Float64Array = field(default_factory=lambda: np.empty((0, 0)))
    velocity_scale: float = 1.0
    velocity: Float64Array | None = None

    def rules_of(self, begin: int, end: int) -> list[str]:
        """Return the rules that alter the rows from `begin` to before `end`, each once for a row."""
        return [rule for rule, mask in self.altered for _ in range(int(mask[begin:end].sum()))]

    def after_first(
        self, asked: Float64Array, reference: Float64Array, velocity_scale: float
    ) -> Foreseen | None:
        """Return what was found for the actions after the first one; None where these are others.

        The guard finds the same for them again: it checks each action from the one before it.
        """
        rows = slice(1, 1 + len(asked))
        is_same = (
            velocity_scale == self.velocity_scale
            and len(self.actions) > 0
            and np.array_equal(reference, self.actions[0])
            and np.array_equal(asked, self.asked[rows])
        )
        if not is_same:
            return None
        altered = tuple((rule, mask[rows]) for rule, mask in self.altered)
        return Foreseen(self.actions[rows], altered, self.asked[rows], velocity_scale)


class Guard:
    """Checks chunks on arrival and each action against the contract; counts what was refused or altered."""

    def __init__(self, actions: Actions, period_s: float) -> None:
        limits = [actions.limit_of(name) for name in actions.names]
        self.masks = ActionMasks.of(actions)
        """Of the actions by kind, for all that treats them by it."""
        self._min = np.array([limit.min for limit in limits])
        self._max = np.array([limit.max for limit in limits])
        self._max_velocity = np.array([limit.fastest for limit in limits])
        self._max_step = self._max_velocity * period_s
        self._policy_dim = actions.unit_map.policy_dim
        self._period_s = period_s
        self._is_velocity = self.masks.is_velocity
        self._switches = SwitchRule(actions, self.masks)
        self._poses = PoseRule(actions, self.masks.poses, period_s)
        self.bounds = MotionBounds(actions, period_s)
        self.needs_position = bool(self.masks.holds.any())
        """Whether the first step is bounded from the measured position or pose."""
        self.counts: Counter[str] = Counter(dict.fromkeys(RULES, 0))

    def check_chunk(self, chunk_size: int, **spaces: Float32Array) -> str:
        """Check a chunk's arrays `[chunk_size, policy_dim]` by name; return the first problem or ''."""
        for space, rows in spaces.items():
            expected = (chunk_size, self._policy_dim)
            if rows.shape != expected:
                self.counts[DIMENSION if rows.shape[1:] != expected[1:] else SHAPE] += 1
                return f"{space}: found shape {list(rows.shape)}, expected {list(expected)}"
            if not np.isfinite(rows).all():
                self.counts[NON_FINITE] += 1
                row, column = np.argwhere(~np.isfinite(rows))[0]
                return f"{space}[{row}, {column}]: found {rows[row, column]}, expected finite values"
        return ""

    def check(
        self,
        action: Float64Array,
        reference: Float64Array | None,
        *,
        velocity_scale: float = 1.0,
        settling: BoolArray | None = None,
        motion: Motion | None = None,
        onward: Float64Array | None = None,
    ) -> Guarded:
        """Return one action `[action_dim]` within the limits. Nothing counts.

        reference: the last command, or the measured position before the first; None when neither is known.
        A position may differ from it by `max_velocity * period`, and a pose along its line and its arc; an
        action with either is refused without a reference. An effort is bounded in the same way, from zero
        before the first. A velocity is bounded by `max_velocity` itself. A switch is closed or opened; its
        reference is NaN before its first command.
        velocity_scale: fraction of `max_velocity` that is allowed now.
        settling: mask `[action_dim]` of switches that must not change yet; None: none.
        motion: how the last command moved; None: accelerations are not bounded. onward `[ticks, action_dim]`:
        where the plan goes on, at the ticks of `MotionBounds.ahead`; None: the robot rests at this action.
        """
        is_known = reference is None or (np.isfinite(reference) | self._switches.places).all()
        if not (np.isfinite(action).all() and is_known):
            return Guarded(None, (NON_FINITE,))
        if reference is None and self.needs_position:
            return Guarded(None, (SENSOR_AGE,))
        interventions = []
        start = np.zeros_like(action) if reference is None else reference
        if self._switches.exist:
            action, waits = self._switches.decide(action, reference, settling)
            interventions += [DWELL] if waits else []
            start = np.where(self._switches.places, action, start)  # no velocity limit
        if self._poses.exist:
            unified = self._poses.unify(action, start)
            if unified is None:
                return Guarded(None, (ORIENTATION,))
            action, start = unified
        safe = np.clip(action, self._min, self._max)
        if (np.abs(safe - action) > ROUNDING).any():
            interventions.append(JOINT_LIMIT)
        slow = self._limit_step(safe, start, velocity_scale)
        if self._poses.exist:
            slow = self._poses.limit_step(safe, start, slow, velocity_scale)
        if (np.abs(slow - safe) > ROUNDING).any():
            interventions.append(VELOCITY_LIMIT)
        if motion is not None and self.bounds.exist:
            if onward is not None:
                onward = self._unify_onward(self.bounds.clip(onward, velocity_scale), safe)
            slow, motion, broken = self.bounds.ease(
                safe, slow, start, motion, onward=onward, velocity_scale=velocity_scale
            )
            interventions += broken
        return Guarded(slow, tuple(interventions), motion)

    def _unify_onward(self, onward: Float64Array, action: Float64Array) -> Float64Array | None:
        if not self._poses.exist:
            return onward
        unified = [self.masks.poses.unify(row, action) for row in onward]
        found = [row for row in unified if row is not None]
        return np.stack(found) if len(found) == len(unified) else None

    def foresee(
        self,
        actions: Float64Array,
        reference: Float64Array,
        *,
        velocity_scale: float = 1.0,
        known: Foreseen | None = None,
        motion: Motion | None = None,
    ) -> Foreseen:
        """Return actions `[rows, action_dim]` as `check` will pass them, one after another.

        Ends before the first row that it will refuse. Switches stay as in `reference`: they change in their
        own ticks alone. known: what the tick before has found, of which the rest may still hold. motion: as
        of `check`.
        """
        if not self.bounds.exist:
            motion = None
        found = known.after_first(actions, reference, velocity_scale) if known is not None else None
        if found is None or not _goes_on(known, motion):
            found = self._foresee(actions, reference, velocity_scale, motion)
            found = replace(found, asked=actions, velocity_scale=velocity_scale)
        if motion is not None and len(found.actions):
            step = self.bounds.motion_of(np.stack([reference, found.actions[0]]))
            found = replace(found, velocity=step.velocity)
        return found

    def _foresee(
        self, actions: Float64Array, reference: Float64Array, velocity_scale: float, motion: Motion | None
    ) -> Foreseen:
        is_finite = np.isfinite(actions)
        if not is_finite.all():
            actions = actions[: int(np.argmin(is_finite.all(axis=1)))]
        if not len(actions):
            return Foreseen(actions)
        if self._switches.exist:
            actions = np.where(self._switches.places, reference, actions)
        if self._poses.exist:  # the step of a pose is no matter of single columns
            return self._foresee_in_turn(actions, reference, velocity_scale, motion)
        safe = np.clip(actions, self._min, self._max)
        slow = self._limit_steps(safe, reference, velocity_scale)
        beyond = _find_altered(actions, safe)
        if motion is None:
            return Foreseen(slow, ((JOINT_LIMIT, beyond), (VELOCITY_LIMIT, _find_altered(safe, slow))))
        eased, altered = self.bounds.lead(safe, slow, reference, motion, velocity_scale)
        before = np.vstack([reference, eased[:-1]])
        fast = _find_altered(safe, self._limit_step(safe, before, velocity_scale))
        return Foreseen(eased, ((JOINT_LIMIT, beyond), (VELOCITY_LIMIT, fast), *altered.items()))

    def _limit_steps(
        self, actions: Float64Array, reference: Float64Array, velocity_scale: float
    ) -> Float64Array:
        """Return actions `[rows, action_dim]` whose steps are within limits, each from the one before."""
        max_step = velocity_scale * self._max_step
        slow: Float64Array = actions
        if self._is_velocity.any():
            bound = velocity_scale * self._max_velocity
            slow = np.where(self._is_velocity, np.clip(actions, -bound, bound), actions)
        steps = np.abs(np.diff(slow, axis=0, prepend=reference[np.newaxis]))
        is_fast = (steps > max_step).any(axis=0) & ~self._is_velocity
        if not is_fast.any():
            return slow
        slow = slow.copy()
        slow[:, is_fast] = limit_rate(slow[:, is_fast], reference[is_fast], max_step[is_fast])
        return slow

    def _foresee_in_turn(
        self,
        actions: Float64Array,
        reference: Float64Array,
        velocity_scale: float,
        motion: Motion | None,
    ) -> Foreseen:
        safe = np.empty_like(actions)
        altered: list[tuple[str, ...]] = []
        onward = self.bounds.look_ahead(actions)
        for row, action in enumerate(actions):
            limited = self.check(
                action, reference, velocity_scale=velocity_scale, motion=motion, onward=onward[row]
            )
            if limited.action is None:  # rows that are not finite are cut off before: an orientation
                break
            safe[row] = reference = limited.action
            motion = limited.motion
            altered.append(limited.interventions)
        rules = sorted({rule for interventions in altered for rule in interventions})
        masks = ((rule, np.array([rule in interventions for interventions in altered])) for rule in rules)
        return Foreseen(safe[: len(altered)], tuple(masks))

    def approach(
        self,
        target: Float64Array,
        reference: Float64Array,
        velocity_scale: float,
        motion: Motion | None = None,
    ) -> Guarded | None:
        """Return the step from a reference towards a target; None when one step gets there, or none may.

        Within the limits of `check`. velocity_scale, motion: as of `check`.
        """
        guarded = self.check(target, reference, velocity_scale=velocity_scale, motion=motion)
        return guarded if not set(RATE_LIMITS).isdisjoint(guarded.interventions) else None

    def way_s(self, begin: Float64Array, end: Float64Array) -> float:
        """Return the time [s] in which positions and poses get from one point to another within the limits.

        Both `[action_dim]`; NaN counts for no way.
        """
        times_s = np.abs(end - begin)[self.masks.is_position] / self._max_velocity[self.masks.is_position]
        longest_s = max(float(np.nanmax(times_s, initial=0.0)), self.bounds.way_s(begin, end))
        unified = self._poses.unify(end, begin) if self._poses.exist and np.isfinite(begin).all() else None
        return longest_s if unified is None else max(longest_s, self._poses.way_s(unified[1], unified[0]))

    def refuse(self, rule: str, refused: int = 1) -> None:
        """Count the actions that a rule outside of `check` refused."""
        self.counts[rule] += refused

    def _limit_step(
        self, action: Float64Array, reference: Float64Array, velocity_scale: float
    ) -> Float64Array:
        max_step = velocity_scale * self._max_step
        low, high = reference - max_step, reference + max_step
        if self._is_velocity.any():
            bound = velocity_scale * self._max_velocity
            low, high = np.where(self._is_velocity, -bound, low), np.where(self._is_velocity, bound, high)
        return np.clip(action, low, high)


def _goes_on(known: Foreseen | None, motion: Motion | None) -> bool:
    """Return whether a robot moves as it was foreseen."""
    if motion is None or known is None or known.velocity is None:
        return motion is None
    return bool(np.allclose(motion.velocity, known.velocity, rtol=1e-9, atol=1e-9))


def _find_altered(before: Float64Array, after: Float64Array) -> BoolArray:
    """Return the mask `[rows]` of actions `[rows, action_dim]` that were altered by more than rounding."""
    is_altered: BoolArray = np.abs(after - before) > ROUNDING
    # As a rule none is, which is known quickly, also of a look-ahead trajectory of a thousand points.
    return np.asarray(is_altered.any(axis=1)) if is_altered.any() else np.zeros(len(is_altered), bool)


def limit_rate(points: Float64Array, begin: Float64Array, max_step: Float64Array) -> Float64Array:
    """Return points `[rows, columns]` within `max_step` `[columns]` of one another, the first of `begin`."""
    found: Float64Array = points.copy()
    last = np.vstack([begin, points[:-1]])
    is_fast = (points < last - max_step) | (points > last + max_step)
    for column in np.flatnonzero(is_fast.any(axis=0)).tolist():
        first = int(is_fast[:, column].argmax())  # the points before it stay
        before = float(points[first - 1, column] if first else begin[column])
        step, bounded = float(max_step[column]), []
        for wanted in points[first:, column].tolist():  # each depends on the one before: no arrays
            if wanted < before - step:
                before -= step
            elif wanted > before + step:
                before += step
            else:
                before = wanted
            bounded.append(before)
        found[first:, column] = bounded
    return found
