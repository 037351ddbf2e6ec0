# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Plays one episode. Stepped: the simulator waits for the policy. Charged: it goes on for a given latency."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from remote_inference.base.exchange import Request
from remote_inference.base.policy import PolicyObservation
from remote_inference.learn.environment import Environment, EnvironmentObservation, Metrics, Step
from remote_inference.learn.environments.emulated_robot import EmulatedRobot, PolicyChunk
from remote_inference.learn.environments.policy_view import (
    Actions,
    PolicyView,
    SteppedEpisode,
    execute_actions,
)
from remote_inference.learn.evaluation.document import EpisodeKey, Evaluation, Mode
from remote_inference.learn.evaluation.policies import EpisodePolicy, PolicyAnswer
from remote_inference.learn.evaluation.results import EpisodeResult, Times, digest_actions
from remote_inference.learn.rollouts.film_strip import Film
from remote_inference.learn.rollouts.group import Sampling


@dataclass(frozen=True)
class PlayedTick:
    """What was shown before an action `[A]` in the environment's order, the action, and its outcome."""

    shown: EnvironmentObservation
    action: Actions
    step: Step


@dataclass
class Episode:
    """An episode under way: its parts, and what was recorded so far."""

    key: EpisodeKey
    environment: Environment
    view: PolicyView
    policy: EpisodePolicy
    evaluation: Evaluation
    limit_steps: int
    film: Film
    actions: list[Actions] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    ticks: list[PlayedTick] | None = None  # kept for a data set
    shows: tuple[str, ...] = ()  # features besides those that the policy sees
    inference_s: list[float] = field(default_factory=list)
    session_wait_s: float = 0.0
    step_s: list[float] = field(default_factory=list)
    versions: dict[str, None] = field(default_factory=dict)
    held_steps: int = 0
    is_terminated: bool = False
    _shown: EnvironmentObservation | None = None

    def reset(self) -> EnvironmentObservation:
        """Begin it; return what is shown."""
        task = self.key.condition.task
        wanted = tuple(dict.fromkeys((*self.view.wanted, *self.shows)))
        self._shown = first = self.environment.reset(self.key.seed, task, wanted)
        self.film.note(0, first)
        return first

    def ask(self, observation: PolicyObservation) -> PolicyAnswer:
        """Return the policy's answer. Raises PolicyError or ServerLostError."""
        answer = self.policy(observation, len(self.actions))
        self.inference_s.append(answer.inference_s)
        self.session_wait_s += answer.session_wait_s
        self.versions[answer.policy_version] = None
        return answer

    def draw_seed(self) -> int:
        """Return the seed of the noise in the next answer: the same in every run."""
        return Sampling(self.key.seed).seed_of(len(self.inference_s))

    def step(self, action: Actions) -> Step:
        """Execute an action `[A]` in the environment's order."""
        begin_s = time.monotonic()
        step = self.environment.step(action)
        self.step_s.append(time.monotonic() - begin_s)
        if self.ticks is not None and self._shown is not None:
            self.ticks.append(PlayedTick(self._shown, action.copy(), step))
        self._shown = step.observation
        self.actions.append(action)
        self.rewards.append(step.reward)
        self.is_terminated = step.terminated
        self.film.note(len(self.actions), step.observation)
        return step

    def finish(self, metrics: Metrics, error: str = "") -> EpisodeResult:
        """Return the result. metrics: of the environment. error: why the episode could not go on."""
        return EpisodeResult(
            **vars(self.key.condition),
            seed=self.key.seed,
            policy_versions=tuple(self.versions),
            success=metrics.success and not error,
            steps=len(self.actions),
            # The sum of a part would favour who breaks off early.
            total_reward=math.nan if error else math.fsum(self.rewards),
            is_terminated=self.is_terminated,
            metrics=metrics.values,
            held_steps=self.held_steps,
            digest=digest_actions(self.actions, self.rewards),
            inference=Times.of(self.inference_s),
            step=Times.of(self.step_s),
            session_wait_ms=1e3 * self.session_wait_s,
            error=error,
        )


def play_stepped(episode: Episode) -> None:
    """Play until the environment or the limit ends the episode; the environment waits for each chunk."""
    stepped = SteppedEpisode(
        episode.view,
        episode.key.condition.task,
        episode.reset(),
        execution_horizon=episode.evaluation.robot.execution_horizon or None,
        max_steps=episode.limit_steps,
    )
    while not stepped.ended:
        answer = episode.ask(stepped.observe(episode.draw_seed()))
        actions = stepped.plan(answer.chunk_robot)
        stepped.note(actions, execute_actions(episode.step, actions))


def play_charged(episode: Episode) -> None:
    """Play with a robot that gets each chunk after the condition's latency."""
    condition = episode.key.condition
    observation = episode.reset()

    def ask(shown: Sequence[EnvironmentObservation], request: Request) -> PolicyChunk:
        asked = replace(
            episode.view.observe(shown, condition.task, episode.draw_seed()),
            inference_delay_steps=request.inference_delay_steps,
            prefix_model=request.prefix_model,
            prefix_robot=request.prefix_robot,
        )
        answer = episode.ask(asked)
        return PolicyChunk(answer.chunk_model, answer.chunk_robot, answer.policy_version)

    evaluation, path = episode.evaluation, episode.evaluation.path_of(episode.key)
    robot = EmulatedRobot(episode.view, evaluation.robot, condition.task, first=observation, path=path)
    while len(episode.actions) < episode.limit_steps:
        step = episode.step(robot.tick(observation, ask))
        episode.held_steps = robot.held_ticks
        observation = step.observation
        if step.ended:
            break


PLAY: Mapping[Mode, Callable[[Episode], None]] = {  # in virtual time
    "stepped": play_stepped,
    "charged": play_charged,
}
