# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The last gate before the motor: finite values, joint limits and velocity limits, in this order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.contract import Actions

Float64Array = NDArray[np.float64]

# Rules as they appear in ClientState.guard_names and ExecutedAction.interventions.
AGE = "age"  # source observation older than max_action_age_s
NON_FINITE = "non_finite"
JOINT_LIMIT = "joint_limit"
VELOCITY_LIMIT = "velocity_limit"
ROUNDING = 1e-6  # a float32 action at a limit may lie this far beyond it; corrected, but no intervention
RULES = (AGE, NON_FINITE, JOINT_LIMIT, VELOCITY_LIMIT)


@dataclass(frozen=True)
class Guarded:
    """A checked action `[action_dim]`, None when refused, and the rules that altered or refused it."""

    action: Float64Array | None
    interventions: tuple[str, ...] = ()


class Guard:
    """Checks each action against the contract. A refusal or clamp is counted, never silent."""

    def __init__(self, actions: Actions, period_s: float) -> None:
        limits = [actions.limits[name] for name in actions.names]
        self._min = np.array([limit.min for limit in limits])
        self._max = np.array([limit.max for limit in limits])
        self._max_velocity = np.array([limit.max_velocity for limit in limits])
        self._max_step = self._max_velocity * period_s
        self._kind = actions.kind
        self.counts: Counter[str] = Counter(dict.fromkeys(RULES, 0))

    def check(self, action: Float64Array, reference: Float64Array | None) -> Guarded:
        """Check one action `[action_dim]`.

        reference: the last command, or the measured position before the first; a position command may differ
        from it by `max_velocity * period`. A velocity command is bounded by `max_velocity` itself.
        """
        if not np.isfinite(action).all() or (reference is not None and not np.isfinite(reference).all()):
            self.counts[NON_FINITE] += 1
            return Guarded(None, (NON_FINITE,))
        interventions = []
        safe = np.clip(action, self._min, self._max)
        if (np.abs(safe - action) > ROUNDING).any():
            interventions.append(JOINT_LIMIT)
        slow = self._limit_velocity(safe, reference)
        if (np.abs(slow - safe) > ROUNDING).any():
            interventions.append(VELOCITY_LIMIT)
        self.counts.update(interventions)
        return Guarded(slow, tuple(interventions))

    def _limit_velocity(self, action: Float64Array, reference: Float64Array | None) -> Float64Array:
        if self._kind == "velocity":
            return np.clip(action, -self._max_velocity, self._max_velocity)
        if self._kind == "position" and reference is not None:
            return np.clip(action, reference - self._max_step, reference + self._max_step)
        return action

    def refuse_for_age(self, refused: int) -> None:
        """Count actions that were dropped because of their age."""
        self.counts[AGE] += refused
