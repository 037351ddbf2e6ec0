# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Asks a policy for the chunks of a whole group at once, with noise of each rollout's own."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np

from remote_inference.core.calls import Calls
from remote_inference.core.policy import (
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
from remote_inference.core.seeds import make_seed

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
    """A policy's chunk in robot space `[H, A]`. log_probabilities: of its rows `[H]`, where it gives them."""

    chunk_robot: Float32Array
    policy_version: str
    log_probabilities: Float32Array | None = None


class GroupPolicy(Protocol):
    """What answers the rollouts of a group."""

    @property
    def spec(self) -> PolicySpec: ...

    async def begin(self, count: int) -> None:
        """Begin as many episodes; forget those before."""

    async def answer(self, asked: Sequence[tuple[int, PolicyObservation]]) -> list[Answer]:
        """Return an answer for each rollout and its observation, in order. Raises PolicyError."""


@runtime_checkable
class KnowsProbabilities(Protocol):
    """A policy that tells how likely its chunks were."""

    def predict_with_log_probabilities(
        self, batch: Sequence[object]
    ) -> tuple[Sequence[Float32Array], Sequence[Float32Array]]:
        """Return what `predict` returns, and a log-probability for each row `[chunk_size]` of each chunk."""


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
        inputs = [self._processors[rollout].pre(observation) for rollout, observation in asked]
        answers: list[Answer] = []
        most = self.spec.max_batch
        for begin in range(0, len(inputs), most):
            rollouts = [rollout for rollout, _ in asked[begin : begin + most]]
            answers += self._predict(rollouts, inputs[begin : begin + most])
        return answers

    def _predict(self, rollouts: Sequence[int], batch: Sequence[object]) -> list[Answer]:
        before = self.spec.fingerprint
        chunks, log_probabilities = self._call(batch)
        if (version := self.spec.fingerprint) != before:
            raise PolicyError(f"{self.spec.name}: its version changed from {before} to {version} in a batch")
        answers = []
        for rollout, chunk_model, known in zip(rollouts, chunks, log_probabilities, strict=True):
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
