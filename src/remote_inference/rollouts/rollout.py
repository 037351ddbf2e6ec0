# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One rollout while it is played: the episode, and what is kept of it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.environment import EnvironmentObservation, Metrics, Step
from remote_inference.core.policy import PolicyObservation
from remote_inference.environments.policy_view import Actions
from remote_inference.environments.stepped_episode import SteppedEpisode
from remote_inference.rollouts.group import ChunkUse, Trajectory
from remote_inference.rollouts.group_policy import Answer, Sampling


class Rollout:
    """Asks for chunks with the rollout's own noise, and keeps what came of them."""

    def __init__(
        self,
        episode: SteppedEpisode,
        first: EnvironmentObservation,
        sampling: Sampling,
        *,
        keep_observations: bool,
    ) -> None:
        """first: what the reset has shown. keep_observations: whether the trajectory holds what was shown."""
        self._episode = episode
        self._sampling = sampling
        self._observations = [first] if keep_observations else None
        self._actions: list[Actions] = []
        self._rewards: list[float] = []
        self._log_probabilities: list[NDArray[np.floating]] = []
        self._chunks: list[ChunkUse] = []
        self._id = secrets.token_hex(4)

    @property
    def ended(self) -> bool:
        return self._episode.ended

    @property
    def steps(self) -> int:
        return self._episode.steps

    def observe(self) -> PolicyObservation:
        """Return what the policy is asked next."""
        return self._episode.observe(self._sampling.seed_of(len(self._chunks)), self._sampling.temperature)

    def plan(self, answer: Answer) -> Actions:
        """Return the rows of a chunk that are executed now."""
        return self._episode.plan(answer.chunk_robot)

    def note(self, answer: Answer, rows: Actions, steps: Sequence[Step]) -> None:
        """Take the outcomes of the first rows of a plan."""
        self._chunks.append(
            ChunkUse(
                f"{self._id}-{len(self._chunks)}",
                self._episode.steps,
                len(steps),
                answer.policy_version,
                self._sampling.seed_of(len(self._chunks)),
            )
        )
        self._actions.append(rows[: len(steps)])
        self._rewards += [step.reward for step in steps]
        if answer.log_probabilities is not None:
            self._log_probabilities.append(answer.log_probabilities[: len(steps)])
        if self._observations is not None:
            self._observations += [step.observation for step in steps]
        self._episode.note(rows, steps)

    def finish(self, slot: int, process_id: int | None, metrics: Metrics) -> Trajectory:
        """Return the trajectory. metrics: as the environment says."""
        known = len(self._log_probabilities) == len(self._chunks)
        return Trajectory(
            slot=slot,
            process_id=process_id,
            sampling=self._sampling,
            actions=np.concatenate(self._actions),
            rewards=np.array(self._rewards),
            chunks=tuple(self._chunks),
            metrics=metrics,
            is_terminated=self._episode.is_terminated,
            is_truncated=self._episode.is_truncated,
            observations=None if self._observations is None else tuple(self._observations),
            log_probabilities=np.concatenate(self._log_probabilities).astype(np.float64) if known else None,
        )
