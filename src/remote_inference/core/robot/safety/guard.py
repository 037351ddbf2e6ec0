# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The last gate before the motor: finite values, joint limits and velocity limits, in this order.

A latch stops a robot whose commands it alters too often.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

import numpy as np

from remote_inference.core.contract.actions import Actions
from remote_inference.core.policy import Float32Array
from remote_inference.core.robot.action_masks import ActionMasks
from remote_inference.core.robot.command import BoolArray, Float64Array
from remote_inference.core.robot.safety.poses import PoseRule
from remote_inference.core.robot.safety.switches import SwitchRule

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
)
ROUNDING = 1e-6  # a float32 action at a limit may lie this far beyond it; corrected, but no intervention


class InterventionLatch:
    """Looks at the last `window` commands of the policy. For one thread."""

    def __init__(self, max_ratio: float, window: int) -> None:
        """max_ratio: fraction of the window that the guard may change; 0 switches the latch off."""
        self._max_ratio = max_ratio
        self._last: deque[tuple[str, ...]] = deque(maxlen=window)
        self._window = window
        self._changed = 0  # of `_last`

    def forget(self) -> None:
        """Begin with an empty window."""
        self._last.clear()
        self._changed = 0

    def take(self, interventions: tuple[str, ...]) -> str:
        """Take the rules that altered or refused one command; return why the robot must stop, or ''.

        A window that stops the robot is forgotten: after `resume` the next one must fill first.
        """
        if not self._max_ratio:
            return ""
        if len(self._last) == self._window:
            self._changed -= bool(self._last[0])
        self._last.append(interventions)
        self._changed += bool(interventions)
        if len(self._last) < self._window or self._changed <= self._max_ratio * self._window:
            return ""
        reason = self._describe()
        self.forget()
        return reason

    def _describe(self) -> str:
        rules = Counter(rule for interventions in self._last for rule in interventions)
        named = ", ".join(f"{rule} {count}" for rule, count in sorted(rules.items()))
        return (
            f"guard: it changed {self._changed} of the last {self._window} commands ({named}), "
            f"max_clamped_ratio is {self._max_ratio:g}"
        )


@dataclass(frozen=True)
class Guarded:
    """A checked action `[action_dim]`, None when refused, and the rules that altered or refused it."""

    action: Float64Array | None
    interventions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Foreseen:
    """Actions `[rows, action_dim]` as the guard will pass them, and the rules that will alter each row."""

    actions: Float64Array
    interventions: tuple[tuple[str, ...], ...]

    @classmethod
    def none(cls) -> Foreseen:
        return cls(np.empty((0, 0)), ())


class Guard:
    """Checks chunks on arrival and each action against the contract. A refusal or clamp is counted."""

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
    ) -> Guarded:
        """Check one action `[action_dim]` and count the interventions.

        reference: the last command, or the measured position before the first; None when neither is known.
        A position may differ from it by `max_velocity * period`, and a pose along its line and its arc; an
        action with either is refused without a reference. An effort is bounded in the same way, from zero
        before the first. A velocity is bounded by `max_velocity` itself. A switch is closed or opened; its
        reference is NaN before its first command.
        velocity_scale: fraction of `max_velocity` that is allowed now.
        settling: mask `[action_dim]` of switches that must not change yet; None: none.
        """
        guarded = self._limit(action, reference, velocity_scale, settling)
        self.counts.update(guarded.interventions)
        return guarded

    def foresee(
        self, actions: Float64Array, reference: Float64Array, *, velocity_scale: float = 1.0
    ) -> Foreseen:
        """Return actions `[rows, action_dim]` as `check` will pass them, one after another; nothing counts.

        Ends before the first row that it will refuse. Switches stay as in `reference`: they change in their
        own ticks alone.
        """
        finite = np.isfinite(actions).all(axis=1)
        if not finite.all():
            actions = actions[: int(np.argmin(finite))]
        if self._switches.exist:
            actions = np.where(self._switches.places, reference, actions)
        if self._poses.exist:  # the step of a pose is no matter of single columns
            return self._foresee_in_turn(actions, reference, velocity_scale)
        safe = np.clip(actions, self._min, self._max)
        steps = np.abs(np.diff(safe, axis=0, prepend=reference[np.newaxis]))
        if self._is_velocity.any():
            steps = np.where(self._is_velocity, np.abs(safe) * self._period_s, steps)
        if not (steps <= velocity_scale * self._max_step).all():  # each row begins where the one before ends
            return self._foresee_in_turn(actions, reference, velocity_scale)
        farthest = np.abs(safe - actions).max(axis=1)
        return Foreseen(safe, tuple((JOINT_LIMIT,) if off > ROUNDING else () for off in farthest.tolist()))

    def _foresee_in_turn(
        self, actions: Float64Array, reference: Float64Array, velocity_scale: float
    ) -> Foreseen:
        safe = np.empty_like(actions)
        interventions: list[tuple[str, ...]] = []
        for row, action in enumerate(actions):
            limited = self._limit(action, reference, velocity_scale, None)
            if limited.action is None:  # rows that are not finite are cut off before: an orientation
                break
            safe[row] = reference = limited.action
            interventions.append(limited.interventions)
        return Foreseen(safe[: len(interventions)], tuple(interventions))

    def approach(
        self, target: Float64Array, reference: Float64Array, velocity_scale: float
    ) -> Float64Array | None:
        """Return the step `[action_dim]` from a reference towards a target; None when one step gets there.

        Within the limits of `check`; nothing counts. velocity_scale: as of `check`.
        """
        guarded = self._limit(target, reference, velocity_scale, None)
        return guarded.action if VELOCITY_LIMIT in guarded.interventions else None

    def way_s(self, begin: Float64Array, end: Float64Array) -> float:
        """Return the time [s] in which positions and poses get from one point to another within the limits.

        Both `[action_dim]`; NaN counts for no way.
        """
        times_s = np.abs(end - begin)[self.masks.is_position] / self._max_velocity[self.masks.is_position]
        longest_s = float(np.nanmax(times_s, initial=0.0))
        unified = self._poses.unify(end, begin) if self._poses.exist and np.isfinite(begin).all() else None
        return longest_s if unified is None else max(longest_s, self._poses.way_s(unified[1], unified[0]))

    def count(self, interventions: tuple[str, ...]) -> None:
        """Count rules that altered an action which a controller executed by itself."""
        self.counts.update(interventions)

    def refuse(self, rule: str, refused: int = 1) -> None:
        """Count the actions that a rule outside of `check` refused."""
        self.counts[rule] += refused

    def _limit(
        self,
        action: Float64Array,
        reference: Float64Array | None,
        velocity_scale: float,
        settling: BoolArray | None,
    ) -> Guarded:
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
        return Guarded(slow, tuple(interventions))

    def _limit_step(
        self, action: Float64Array, reference: Float64Array, velocity_scale: float
    ) -> Float64Array:
        max_step = velocity_scale * self._max_step
        low, high = reference - max_step, reference + max_step
        if self._is_velocity.any():
            bound = velocity_scale * self._max_velocity
            low, high = np.where(self._is_velocity, -bound, low), np.where(self._is_velocity, bound, high)
        return np.clip(action, low, high)
