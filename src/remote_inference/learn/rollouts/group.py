# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Groups of rollouts: trajectories, rewards and advantages."""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remote_inference.base.calls import Calls
from remote_inference.base.errors import UserError
from remote_inference.base.fingerprint import make_seed
from remote_inference.base.policy import (
    Float32Array,
    Policy,
    PolicyError,
    PolicyObservation,
    PolicySpec,
    Processors,
    ServingMode,
    find_chunk_problem,
    predict_all,
)
from remote_inference.learn.environment import EnvironmentObservation, EnvironmentSpec, Metrics
from remote_inference.learn.environments.policy_view import Actions

# -- Asks a policy for the chunks of a whole group at once, with noise of each rollout's own -------------

ANSWER_S = 60.0  # until a policy that does not answer is an error


@dataclass(frozen=True)
class Sampling:
    """How one rollout draws: equal samplings from equal seeds give equal rollouts.

    noise_seed: below 2**63. temperature: scale of the policy's noise.
    """

    noise_seed: int
    temperature: float = 1.0

    def seed_of(self, request: int) -> int:
        """Return the seed of the rollout's n-th request, from 0."""
        return make_seed([struct.pack("<QQ", self.noise_seed, request)])

    @classmethod
    def spread(cls, seed: int, count: int, temperature: float = 1.0) -> tuple[Sampling, ...]:
        """Return samplings for a group, of which no two draw the same."""
        return tuple(
            cls(make_seed([struct.pack("<qQ", seed, rollout)]), temperature) for rollout in range(count)
        )


@dataclass(frozen=True)
class Answer:
    """A policy's chunk in robot space `[H, A]`. log_probabilities: of its actions `[H]`, if it has them."""

    chunk_robot: Float32Array
    policy_version: str
    log_probabilities: Float32Array | None = None


class GroupPolicy(Protocol):
    """A policy that answers the rollouts of a group."""

    @property
    def spec(self) -> PolicySpec: ...

    async def begin(self, count: int) -> None:
        """Begin as many episodes; forget those before."""

    async def answer(self, asked: Sequence[tuple[int, PolicyObservation]]) -> list[Answer]:
        """Return an answer for each rollout and its observation, in order. Raises PolicyError."""


@runtime_checkable
class KnowsProbabilities(Protocol):
    """A policy that gives log-probabilities of its chunks."""

    def predict_with_log_probabilities(
        self, batch: Sequence[object]
    ) -> tuple[Sequence[Float32Array], Sequence[Float32Array]]:
        """Return what `predict` returns, and log-probabilities of each chunk's actions `[chunk_size]`."""


class LocalPolicy:
    """A loaded policy of this process, called on a thread of its own: a group's requests in one batch."""

    def __init__(self, policy: Policy, answer_s: float = ANSWER_S) -> None:
        """answer_s: how long one batch may take. Raises PolicyError for a policy of one session alone."""
        if policy.spec.serving_mode is ServingMode.EXCLUSIVE:
            raise PolicyError(f"{policy.spec.name}: it serves one episode at a time, expected one for groups")
        self._policy = policy
        self._answer_s = answer_s
        self._processors: list[Processors] = []
        self._calls = Calls()
        self._calls.start("group_policy")

    @property
    def spec(self) -> PolicySpec:
        return self._policy.spec

    async def begin(self, count: int) -> None:
        self._processors = [self._policy.make_processors() for _ in range(count)]

    async def answer(self, asked: Sequence[tuple[int, PolicyObservation]]) -> list[Answer]:
        call = self._calls.submit(partial(self._answer, tuple(asked)))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(call), self._answer_s)
        except asyncio.TimeoutError as error:
            raise PolicyError(f"{self.spec.name}: it has not answered for {self._answer_s:g} s") from error

    def close(self) -> None:
        """End the thread, without waiting for a policy that hangs. The policy is its owner's to close."""
        self._calls.close()

    # -- on the policy's thread ----------------------------------------------------------------------------

    def _answer(self, asked: Sequence[tuple[int, PolicyObservation]]) -> list[Answer]:
        answers: list[Answer] = []
        for begin in range(0, len(asked), self.spec.max_batch):
            answers += self._predict(asked[begin : begin + self.spec.max_batch])
        return answers

    def _predict(self, asked: Sequence[tuple[int, PolicyObservation]]) -> list[Answer]:
        batch = [self._processors[rollout].pre(observation) for rollout, observation in asked]
        before = self.spec.fingerprint
        chunks, log_probabilities = self._call(batch)
        if (version := self.spec.fingerprint) != before:
            raise PolicyError(f"{self.spec.name}: its version changed from {before} to {version} in a batch")
        answers = []
        for (rollout, _), chunk_model, known in zip(asked, chunks, log_probabilities, strict=True):
            chunk_robot = self._processors[rollout].post(chunk_model)
            if problem := find_chunk_problem(self.spec, chunk_model, chunk_robot):
                raise PolicyError(f"{self.spec.name}: {problem}")
            answers.append(Answer(chunk_robot, version, known))
        return answers

    def _call(self, batch: Sequence[object]) -> tuple[Sequence[Float32Array], Sequence[Float32Array | None]]:
        if not isinstance(self._policy, KnowsProbabilities):
            return predict_all(self._policy, batch), [None] * len(batch)
        chunks, known = self._policy.predict_with_log_probabilities(batch)
        shapes = [np.shape(one) for one in known]
        if len(chunks) != len(batch) or shapes != [(self.spec.chunk_size,)] * len(batch):
            expected = f"{len(batch)} chunks, each with log-probabilities [{self.spec.chunk_size}]"
            raise PolicyError(f"{self.spec.name}: found {len(chunks)} with {shapes}, expected {expected}")
        return chunks, list(known)


DEGENERATE_STD = 1e-8  # of rewards that differ by rounding alone


@dataclass(frozen=True)
class ChunkUse:
    """One chunk of a trajectory. steps: actions of it that were executed. noise_seed: of its request."""

    chunk_id: str
    first_step: int
    steps: int
    policy_version: str
    noise_seed: int


@dataclass(frozen=True)
class Trajectory:
    """One rollout of T control ticks.

    actions: as executed `[T, A]`, in the environment's order. rewards: `[T]`. observations: T + 1, that of
    the reset first, or None when they were not asked for. log_probabilities: of the policy's actions `[T]`,
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
        """Whether the environment counts it as a success."""
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
        """The environment's successes `[G]`."""
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


# -- Chooses the next task: the one whose groups teach most, by the results recorded so far -------------

RECENT = 0.3  # weight of the newest group in a task's rate of success


class CurriculumError(UserError):
    """A curriculum cannot record a group, or has no tasks; the message has the reason."""


@dataclass(frozen=True)
class TaskRecord:
    """What is known of a task. success_rate: over recent groups; before the first, unknown: a half."""

    groups: int = 0
    success_rate: float = 0.5

    @property
    def promise(self) -> float:
        """Variance of success, 0 to 0.25: a group that always or never succeeds has no advantages."""
        return self.success_rate * (1.0 - self.success_rate)


class Curriculum:
    """Tasks of one environment and their results. `record` is all that changes it."""

    def __init__(self, tasks: Sequence[str]) -> None:
        """Raise CurriculumError without a task."""
        if not tasks:
            raise CurriculumError("curriculum: found no task, expected one or more")
        self._records = dict.fromkeys(tasks, TaskRecord())

    @property
    def records(self) -> Mapping[str, TaskRecord]:
        return dict(self._records)

    def choose(self) -> str:
        """Return the task with the most promise; of equals that with the fewest groups, then the first."""
        return max(self._records, key=lambda task: (self._records[task].promise, -self._records[task].groups))

    def record(self, group: Group) -> TaskRecord:
        """Record the outcome of a group; return the new record of its task."""
        if group.task not in self._records:
            expected = " or ".join(map(repr, self._records))
            raise CurriculumError(f"curriculum: found a group of task {group.task!r}, expected {expected}")
        before = self._records[group.task]
        rate = float(group.successes.mean())
        if before.groups:
            rate = (1.0 - RECENT) * before.success_rate + RECENT * rate
        self._records[group.task] = TaskRecord(before.groups + 1, rate)
        return self._records[group.task]
