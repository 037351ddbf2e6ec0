# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One episode in lockstep: the environment waits for the policy's chunks, whose rows are executed in turn.

The episode touches neither: who drives it asks the policy and steps the environment, on whatever threads.

    episode = SteppedEpisode(view, task, environment.reset(seed, task, view.wanted))
    while not episode.ended:
        rows = episode.plan(answer(episode.observe()))
        episode.note(rows, step_rows(environment, rows))
"""

from __future__ import annotations

from collections.abc import Sequence

from remote_inference.core.environment import Environment, EnvironmentObservation, Step
from remote_inference.core.policy import Float32Array, PolicyObservation
from remote_inference.environments.policy_view import Actions, PolicyView


class SteppedEpisode:
    """What has happened in an episode so far, and what is asked and executed next."""

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

        execution_horizon: rows of each chunk that are executed; None: all. max_steps: after which the episode
        ends; None: when the environment ends it.
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
        """Return the rows `[n, A]` of a chunk `[H, A]` to execute now, bounded as by a robot's guard."""
        rows = self._view.actions(chunk_robot)[: self._execution_horizon]
        if self._max_steps is not None:
            rows = rows[: self._max_steps - self.steps]
        return self._view.limit(rows, self._before)

    def note(self, executed: Actions, steps: Sequence[Step]) -> None:
        """Take the outcomes of the first rows of a plan, one or more, in order."""
        if not steps:
            return
        for step in steps:
            self.steps += 1
            self.total_reward += step.reward
            self._shown.append(step.observation)
        self._before = executed[len(steps) - 1]
        del self._shown[: -self._view.observation_steps]
        self.is_terminated = steps[-1].terminated
        self.is_truncated = steps[-1].truncated or (
            not self.is_terminated and self._max_steps is not None and self.steps >= self._max_steps
        )


def step_rows(environment: Environment, rows: Actions) -> list[Step]:
    """Execute rows `[n, A]` until the episode ends; return the outcome of each that was executed."""
    steps: list[Step] = []
    for row in rows:
        steps.append(environment.step(row))
        if steps[-1].ended:
            break
    return steps
