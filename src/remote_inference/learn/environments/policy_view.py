# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Translates an environment's observations for a policy, and the policy's chunks for the environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.policy import Float32Array, PastStep, PolicyObservation, PolicySpec
from remote_inference.learn.environment import (
    EnvError,
    EnvironmentObservation,
    EnvironmentSpec,
    FeatureKind,
    Step,
    action_that_holds,
)

Actions = NDArray[np.float64]


class PolicyView:
    """Translates between one environment and one policy by name, never by position."""

    def __init__(self, environment: EnvironmentSpec, policy: PolicySpec) -> None:
        """Raise EnvError when the environment lacks what the policy needs, or takes other actions."""
        self.environment, self.policy = environment, policy
        place = f"{environment.name} for policy {policy.name}"
        self._state = environment.feature_of(FeatureKind.STATE)
        self._state_places = _places(policy.state_names, environment.state_names, f"{place}: state")
        self._action_places = _places(environment.actions.names, policy.action_names, f"{place}: actions")
        if extra := [name for name in policy.action_names if name not in environment.actions.names]:
            raise EnvError(f"{place}: actions: found none of {', '.join(extra)}, which the policy commands")
        self._images = tuple(policy.image_shapes)
        for name in self._images:
            images = [one for one, found in environment.features.items() if found.kind is FeatureKind.RGB]
            if name not in images:
                raise EnvError(f"{place}: found no image {name}, expected of {', '.join(images) or 'none'}")
        self.wanted: tuple[str, ...] = (self._state, *self._images)

    def observe(
        self, shown: Sequence[EnvironmentObservation], task: str, seed: int = 0, temperature: float = 1.0
    ) -> PolicyObservation:
        """Return what the policy is asked.

        shown: the newest observations of the episode, oldest first; the first is repeated where the policy
        sees more control ticks. seed, temperature: as in PolicyObservation.
        """
        recent = [one.values for one in shown[-self.policy.observation_steps :]]
        recent = [recent[0]] * (self.policy.observation_steps - len(recent)) + recent
        *past, now = [
            PastStep(values[self._state][self._state_places], {name: values[name] for name in self._images})
            for values in recent
        ]
        return PolicyObservation(
            now.state, now.images, task, seed=seed, temperature=temperature, past=tuple(past)
        )

    def actions(self, chunk_robot: NDArray[np.floating[Any]]) -> Actions:
        """Return a chunk's actions `[H, A]` in the environment's order."""
        return chunk_robot.astype(np.float64)[:, self._action_places]

    def limit(self, actions: Actions, before: Actions) -> Actions:
        """Return actions `[n, A]` as a robot's guard lets them pass: within bounds, no faster than allowed.

        before: the action `[A]` executed before the first one.
        """
        spec = self.environment.actions
        limited = np.clip(actions, spec.lower, spec.upper)
        if spec.kind != "position":
            return limited
        most = np.asarray(spec.max_velocity) / self.environment.control_rate_hz
        for row in limited:
            row[:] = before + np.clip(row - before, -most, most)
            before = row
        return limited

    def hold(self, observation: EnvironmentObservation) -> Actions:
        """Return the action `[A]` that keeps the robot where it is, as far as the state shows it."""
        return action_that_holds(self.environment, observation.values[self._state])


def _places(names: Sequence[str], among: Sequence[str], what: str) -> list[int]:
    if missing := [name for name in names if name not in among]:
        raise EnvError(f"{what}: found no {', '.join(missing)}, expected of {', '.join(among) or 'none'}")
    return [list(among).index(name) for name in names]


# -- One episode in lockstep: the environment waits for the policy's chunks and executes their actions ---
#
# The episode touches neither: who drives it asks the policy and steps the environment, on whatever threads.
#
#     episode = SteppedEpisode(view, task, environment.reset(seed, task, view.wanted))
#     while not episode.ended:
#         actions = episode.plan(answer(episode.observe()))
#         episode.note(actions, execute_actions(environment.step, actions))


class SteppedEpisode:
    """The state of an episode: which observation is next for the policy, and which actions to execute."""

    def __init__(
        self,
        view: PolicyView,
        task: str,
        first: EnvironmentObservation,
        *,
        execution_horizon: int | None = None,
        max_steps: int | None = None,
    ) -> None:
        """Begin with what the reset has shown.

        execution_horizon: actions of each chunk that are executed; None: all. max_steps: after which the
        episode ends; None: when the environment ends it.
        """
        self.task = task
        self.steps = 0
        self.total_reward = 0.0
        self.is_terminated = self.is_truncated = False
        self._view = view
        self._execution_horizon = execution_horizon
        self._max_steps = max_steps
        self._shown = [first]
        self._before = view.hold(first)

    @property
    def ended(self) -> bool:
        """Whether the task or the time is over."""
        return self.is_terminated or self.is_truncated

    def observe(self, seed: int = 0, temperature: float = 1.0) -> PolicyObservation:
        """Return what the policy is asked next. seed, temperature: of the noise that it may draw."""
        return self._view.observe(self._shown, self.task, seed, temperature)

    def plan(self, chunk_robot: Float32Array) -> Actions:
        """Return the actions `[n, A]` of a chunk `[H, A]` to execute now, bounded as by a robot's guard."""
        actions = self._view.actions(chunk_robot)[: self._execution_horizon]
        if self._max_steps is not None:
            actions = actions[: self._max_steps - self.steps]
        return self._view.limit(actions, self._before)

    def note(self, executed: Actions, steps: Sequence[Step]) -> None:
        """Store the outcomes of the first actions of a plan, in order."""
        if not steps:
            return
        for step in steps:
            self.steps += 1
            self.total_reward += step.reward
            self._shown.append(step.observation)
        self._before = executed[len(steps) - 1]
        del self._shown[: -self._view.policy.observation_steps]
        self.is_terminated = steps[-1].terminated
        self.is_truncated = steps[-1].truncated or (
            not self.is_terminated and self._max_steps is not None and self.steps >= self._max_steps
        )


def execute_actions(execute: Callable[[Actions], Step], actions: Actions) -> list[Step]:
    """Execute actions `[n, A]` until the episode ends; return the outcome of each executed one."""
    steps: list[Step] = []
    for action in actions:
        steps.append(execute(action))
        if steps[-1].ended:
            break
    return steps
