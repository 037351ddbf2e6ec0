# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a policy sees of an environment, and what its chunks mean there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.environment import (
    EnvError,
    EnvironmentObservation,
    EnvironmentSpec,
    FeatureKind,
    Values,
    action_that_holds,
)
from remote_inference.core.policy import Float32Array, PastStep, PolicyObservation, PolicySpec

Actions = NDArray[np.float64]


class PolicyView:
    """Translates between one environment and one policy by name, never by position."""

    def __init__(self, environment: EnvironmentSpec, policy: PolicySpec) -> None:
        """Raise EnvError when the environment lacks what the policy needs, or takes other actions."""
        self.environment = environment
        self.observation_steps = policy.observation_steps
        place = f"{environment.name} for policy {policy.name}"
        self._state = environment.feature_of(FeatureKind.STATE)
        self._state_places = _places(policy.state_names, environment.state_names, f"{place}: state")
        self._action_places = _places(environment.actions.names, policy.action_names, f"{place}: actions")
        if extra := [name for name in policy.action_names if name not in environment.actions.names]:
            raise EnvError(f"{place}: actions: found none of {', '.join(extra)}, which the policy commands")
        self._images = tuple(policy.image_shapes)
        for name in self._images:
            feature = environment.features.get(name)
            if feature is None or feature.kind is not FeatureKind.RGB:
                images = [one for one, found in environment.features.items() if found.kind is FeatureKind.RGB]
                raise EnvError(f"{place}: found no image {name}, expected of {', '.join(images) or 'none'}")
        self.wanted: tuple[str, ...] = (self._state, *self._images)

    def observe(
        self, shown: Sequence[EnvironmentObservation], task: str, seed: int = 0, temperature: float = 1.0
    ) -> PolicyObservation:
        """Return what the policy is asked.

        shown: the newest observations of the episode, oldest first; the first is repeated where the policy
        sees more control ticks. seed, temperature: as in PolicyObservation.
        """
        recent = list(shown[-self.observation_steps :])
        recent = [recent[0]] * (self.observation_steps - len(recent)) + recent
        *past, (state, images) = [(self._read_state(one.values), self._read_images(one)) for one in recent]
        return PolicyObservation(
            state,
            images,
            task,
            seed=seed,
            temperature=temperature,
            past=tuple(PastStep(*step) for step in past),
        )

    def actions(self, chunk_robot: NDArray[np.floating[Any]]) -> Actions:
        """Return a chunk's rows `[H, A]` in the environment's order."""
        return chunk_robot.astype(np.float64)[:, self._action_places]

    def limit(self, rows: Actions, before: Actions) -> Actions:
        """Return rows `[n, A]` as a robot's guard lets them pass: within bounds, no faster than allowed.

        before: the action `[A]` executed before the first row.
        """
        spec = self.environment.actions
        limited = np.clip(rows, spec.lower, spec.upper)
        if spec.kind != "position":
            return limited
        most = np.asarray(spec.max_velocity) / self.environment.control_rate_hz
        for row in limited:
            row[:] = before + np.clip(row - before, -most, most)
            before = row
        return limited

    def hold(self, observation: EnvironmentObservation) -> Actions:
        """Return the action `[A]` that keeps the robot where it is, as far as the state tells."""
        return action_that_holds(self.environment, observation.values[self._state])

    def _read_state(self, values: Values) -> Float32Array:
        state: Float32Array = values[self._state][self._state_places]
        return state

    def _read_images(self, observation: EnvironmentObservation) -> Values:
        return {name: observation.values[name] for name in self._images}


def _places(names: Sequence[str], among: Sequence[str], what: str) -> list[int]:
    """Return where each name stands among others. Raises EnvError for one that does not."""
    if missing := [name for name in names if name not in among]:
        raise EnvError(f"{what}: found no {', '.join(missing)}, expected of {', '.join(among) or 'none'}")
    return [list(among).index(name) for name in names]
