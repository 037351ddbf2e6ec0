# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a group of rollouts has brought: trajectories, their rewards and how each compares with the others."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remote_inference.core.environment import EnvironmentObservation, EnvironmentSpec, Metrics
from remote_inference.environments.policy_view import Actions
from remote_inference.rollouts.group_policy import Sampling

DEGENERATE_STD = 1e-8  # of rewards that differ by rounding alone


@dataclass(frozen=True)
class ChunkUse:
    """One chunk of a trajectory. steps: rows of it that were executed. noise_seed: of its request."""

    chunk_id: str
    first_step: int
    steps: int
    policy_version: str
    noise_seed: int


@dataclass(frozen=True)
class Trajectory:
    """One rollout of T control ticks.

    actions: as executed `[T, A]`, in the environment's order. rewards: `[T]`. observations: T + 1, that of
    the reset first, or None when they were not asked for. log_probabilities: of the policy's rows `[T]`,
    before the environment's bounds; None where the policy gives none.
    """

    slot: int
    process_id: int | None
    sampling: Sampling
    actions: Actions
    rewards: NDArray[np.float64]
    chunks: tuple[ChunkUse, ...]
    metrics: Metrics
    is_terminated: bool
    is_truncated: bool
    observations: tuple[EnvironmentObservation, ...] | None = None
    log_probabilities: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def total_reward(self) -> float:
        return float(self.rewards.sum())

    @property
    def is_success(self) -> bool:
        """What the environment says."""
        return self.metrics.success

    def digest(self) -> str:
        """Return a hash of actions, rewards, log-probabilities and observations, bit for bit."""
        kept = hashlib.sha256()
        arrays = [self.actions, self.rewards]
        if self.log_probabilities is not None:
            arrays.append(self.log_probabilities)
        for array in arrays:
            kept.update(array.tobytes())
        kept.update(digest_observations(self.observations or ()).encode())
        return kept.hexdigest()


@dataclass(frozen=True)
class Group:
    """Rollouts of one task from one seed."""

    environment: EnvironmentSpec
    task: str
    seed: int
    trajectories: tuple[Trajectory, ...]

    def __len__(self) -> int:
        return len(self.trajectories)

    @property
    def policy_versions(self) -> tuple[str, ...]:
        """The versions whose chunks were executed, each once, in the order of their first use."""
        used = [chunk for one in self.trajectories for chunk in one.chunks]
        return tuple(
            dict.fromkeys(chunk.policy_version for chunk in sorted(used, key=lambda c: c.first_step))
        )

    @property
    def is_mixed(self) -> bool:
        """Whether more than one version of the policy took part: such a group compares policies, too."""
        return len(self.policy_versions) > 1

    @property
    def rewards(self) -> NDArray[np.float64]:
        """The rollouts' total rewards `[G]`."""
        return np.array([one.total_reward for one in self.trajectories])

    @property
    def successes(self) -> NDArray[np.bool_]:
        """What the environment says of each rollout `[G]`."""
        return np.array([one.is_success for one in self.trajectories])

    @property
    def advantages(self) -> NDArray[np.float64]:
        """How much better each rollout was than the group `[G]`; see find_advantages."""
        return find_advantages(self.rewards)

    @property
    def is_degenerate(self) -> bool:
        """Whether all rewards are equal: nothing can be learned from the group."""
        return not self.advantages.any()

    @property
    def distinct(self) -> int:
        """How many different rollouts there are: 1 when the policy draws nothing."""
        return len({one.actions.tobytes() for one in self.trajectories})


def find_advantages(rewards: ArrayLike) -> NDArray[np.float64]:
    """Return `(r - mean) / std` of rewards `[G]`, with the standard deviation of the group itself.

    Zeros where all rewards are equal, and for a group of one. Raises ValueError for rewards not finite.
    """
    found = np.asarray(rewards, np.float64)
    if not np.isfinite(found).all():
        raise ValueError(f"rewards: found {found.tolist()}, expected finite values")
    std = float(found.std()) if len(found) else 0.0
    largest = float(np.abs(found).max()) if len(found) else 0.0
    if std <= DEGENERATE_STD * max(1.0, largest):
        return np.zeros(len(found))
    advantages: NDArray[np.float64] = (found - found.mean()) / std
    return advantages


def digest_observations(shown: Sequence[EnvironmentObservation]) -> str:
    """Return a hash of observations, bit for bit."""
    kept = hashlib.sha256()
    for observation in shown:
        kept.update(np.float64(observation.time_s).tobytes())
        for name in sorted(observation.values):
            kept.update(name.encode() + observation.values[name].tobytes())
    return kept.hexdigest()
