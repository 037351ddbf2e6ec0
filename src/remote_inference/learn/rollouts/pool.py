# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A pool of leased slots in which groups of rollouts are played, for programs that use asyncio.

async with RolloutPool(LocalTransport.of("belt_arm", {}, 8), 8) as pool:
    group = await pool.run_group(policy, seed=7)
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from remote_inference.base.errors import UserError
from remote_inference.base.policy import PolicyObservation
from remote_inference.learn.environment import EnvironmentObservation, EnvironmentSpec, Metrics, Step
from remote_inference.learn.environments.policy_view import Actions, PolicyView, SteppedEpisode
from remote_inference.learn.rollouts.group import (
    Answer,
    ChunkUse,
    Group,
    GroupPolicy,
    Sampling,
    Trajectory,
    digest_observations,
)
from remote_inference.learn.rollouts.slots import Slots
from remote_inference.learn.rollouts.transport import Transport


class Rollout(SteppedEpisode):
    """An episode that requests chunks with noise of its own, and keeps what was executed of them."""

    def __init__(
        self,
        view: PolicyView,
        task: str,
        first: EnvironmentObservation,
        sampling: Sampling,
        *,
        keep_observations: bool,
        execution_horizon: int | None,
        max_steps: int | None,
    ) -> None:
        """first: what the reset has shown. keep_observations: whether the trajectory holds what was shown."""
        super().__init__(view, task, first, execution_horizon=execution_horizon, max_steps=max_steps)
        self._sampling = sampling
        self._observations = [first] if keep_observations else None
        self._actions: list[Actions] = []
        self._rewards: list[float] = []
        self._log_probabilities: list[NDArray[np.floating]] = []
        self._chunks: list[ChunkUse] = []
        self._id = secrets.token_hex(4)

    def next_request(self) -> PolicyObservation:
        """Return the policy's next observation, with the noise of this rollout."""
        return self.observe(self._sampling.seed_of(len(self._chunks)), self._sampling.temperature)

    def note_chunk(self, answer: Answer, actions: Actions, steps: Sequence[Step]) -> None:
        """Store the outcomes of the first actions of a chunk's plan."""
        seed = self._sampling.seed_of(len(self._chunks))
        chunk_id = f"{self._id}-{len(self._chunks)}"
        self._chunks.append(ChunkUse(chunk_id, self.steps, len(steps), answer.policy_version, seed))
        self._actions.append(actions[: len(steps)])
        self._rewards += [step.reward for step in steps]
        if answer.log_probabilities is not None:
            self._log_probabilities.append(answer.log_probabilities[: len(steps)])
        if self._observations is not None:
            self._observations += [step.observation for step in steps]
        self.note(actions, steps)

    def finish(self, slot: int, process_id: int | None, metrics: Metrics) -> Trajectory:
        """Return the trajectory. metrics: of the environment."""
        known = len(self._log_probabilities) == len(self._chunks)
        return Trajectory(
            slot=slot,
            process_id=process_id,
            sampling=self._sampling,
            actions=np.concatenate(self._actions),
            rewards=np.array(self._rewards),
            chunks=tuple(self._chunks),
            metrics=metrics,
            is_terminated=self.is_terminated,
            is_truncated=self.is_truncated,
            observations=None if self._observations is None else tuple(self._observations),
            log_probabilities=np.concatenate(self._log_probabilities).astype(np.float64) if known else None,
        )


Result = TypeVar("Result")

CLOSE_S = 60.0  # until a transport that does not close is given up
Progress = Callable[[int, int], None]  # called with a rollout and how many steps it has made


class RolloutError(UserError):
    """A group cannot be played; the message has the reason."""


class RolloutPool:
    """The slots of one lease: all of them while it is open, otherwise none.

    One group is played at a time. An error in one rollout ends the group, and is the one that is raised;
    the pool can be used again.
    """

    def __init__(self, transport: Transport, count: int, *, holder: str = "") -> None:
        """transport: closed with the pool. holder: for others who ask for slots in vain."""
        self._transport = transport
        self._count = count
        self._holder = holder or f"process {os.getpid()} on {socket.gethostname()}"
        self._slots: Slots | None = None
        self._is_playing = False

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            with suppress(Exception):  # the first error matters
                await self._within(self._transport.close())
            raise
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        try:
            await self.close()
        except Exception:
            if error is None:
                raise

    @property
    def slots(self) -> Slots:
        """The leased slots. Raises RolloutError while there are none."""
        if self._slots is None:
            raise RolloutError("rollouts: the pool is not open")
        return self._slots

    @property
    def spec(self) -> EnvironmentSpec:
        """Of the environments."""
        return self.slots.spec

    async def open(self) -> None:
        """Lease the slots. Raises the first error when one of them cannot be connected; none is held then."""
        if self._slots is not None:
            return
        self._slots = await self._transport.lease(self._holder, self._count)  # whole

    async def close(self) -> None:
        """Release slots and transport, within a minute; safe to call again. Raises the first error."""
        slots, self._slots = self._slots, None
        try:
            if slots is not None:
                await self._within(slots.release())
        finally:
            await self._within(self._transport.close())

    # -- groups --------------------------------------------------------------------------------------------

    async def run_group(
        self,
        policy: GroupPolicy,
        *,
        seed: int,
        task: str = "",
        temperature: float = 1.0,
        samplings: Sequence[Sampling] | None = None,
        execution_horizon: int | None = None,
        max_steps: int | None = None,
        keep_observations: bool = False,
        progress: Progress | None = None,
    ) -> Group:
        """Play one rollout in each slot, in lockstep: the environments wait for one batch of the policy.

        seed: of every environment. task: empty for the environment's first. temperature: of all rollouts,
        whose noise then comes from the seed; samplings: one for each slot, instead. execution_horizon:
        actions of each chunk that are executed; None: all. max_steps: of each rollout; None: until the
        environment ends it. keep_observations: of each control tick, in memory. Raises EnvError, LeaseError
        or PolicyError, the first of them; RolloutError while another group is played, or for another number
        of samplings than slots.
        """
        slots = self.slots
        drawn = tuple(samplings or Sampling.spread(seed, len(slots), temperature))
        if len(drawn) != len(slots):
            raise RolloutError(f"rollouts: found {len(drawn)} samplings, expected {len(slots)}")
        if self._is_playing:
            raise RolloutError("rollouts: a group is being played, expected one at a time")
        self._is_playing = True
        try:
            view = PolicyView(slots.spec, policy.spec)
            task = task or slots.spec.tasks[0]
            await policy.begin(len(drawn))
            shown = await gather(slots.reset(index, seed, task, view.wanted) for index in range(len(drawn)))
            rollouts = [
                Rollout(
                    view,
                    task,
                    first,
                    sampling,
                    keep_observations=keep_observations,
                    execution_horizon=execution_horizon,
                    max_steps=max_steps,
                )
                for first, sampling in zip(shown, drawn, strict=True)
            ]
            await self._play(slots, policy, rollouts, progress)
            metrics = await gather(slots.metrics(index) for index in range(len(rollouts)))
        finally:
            self._is_playing = False
        played = zip(rollouts, range(len(slots)), slots.process_ids, metrics, strict=True)
        return Group(slots.spec, task, seed, tuple(Rollout.finish(*each) for each in played))

    @staticmethod
    async def _play(
        slots: Slots, policy: GroupPolicy, rollouts: Sequence[Rollout], progress: Progress | None
    ) -> None:
        async def execute(index: int, answer: Answer) -> None:
            rollout = rollouts[index]
            actions = rollout.plan(answer.chunk_robot)
            rollout.note_chunk(answer, actions, await slots.execute(index, actions))
            if progress is not None:
                progress(index, rollout.steps)

        while running := [index for index, rollout in enumerate(rollouts) if not rollout.ended]:
            answers = await policy.answer([(index, rollouts[index].next_request()) for index in running])
            await gather(execute(index, answer) for index, answer in zip(running, answers, strict=True))

    @staticmethod
    async def _within(closing: Awaitable[Result]) -> Result:
        try:
            return await asyncio.wait_for(closing, CLOSE_S)
        except asyncio.TimeoutError as error:
            raise RolloutError(f"rollouts: the slots were not released within {CLOSE_S:g} s") from error


async def gather(awaitables: Iterable[Awaitable[Result]]) -> list[Result]:
    """Return all results. After an error, wait for the others, and raise the first."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        return await asyncio.gather(*tasks)
    except Exception:
        await asyncio.wait(tasks)  # every touch has a deadline
        for task in tasks:
            task.exception()  # marks the others as retrieved
        raise


# -- Shows that the rollouts of a group did not touch each other: each is repeated in another slot -------


@dataclass(frozen=True)
class Isolation:
    """The check of a group. processes: distinct ones. repeated: rollouts that came out equal, bit for bit."""

    rollouts: int
    processes: int
    repeated: int

    @property
    def is_proven(self) -> bool:
        return self.repeated == self.processes == self.rollouts


async def prove_isolation(pool: RolloutPool, group: Group) -> Isolation:
    """Execute each rollout's actions in the slot of the next one, and compare all that is shown.

    A slot that leaked into another, or kept something of an earlier episode, would show other observations.
    Raises RolloutError for a group without observations.
    """
    slots = pool.slots

    async def repeat(number: int) -> bool:
        one = group.trajectories[number]
        if one.observations is None:
            raise RolloutError("rollouts: found no observations, expected a group that was played with them")
        other = (number + 1) % len(group)
        first = await slots.reset(other, group.seed, group.task, tuple(one.observations[0].values))
        steps = await slots.execute(other, one.actions)
        shown = [first, *(step.observation for step in steps)]
        return digest_observations(shown) == digest_observations(one.observations)

    repeated = await gather(repeat(number) for number in range(len(group)))
    processes = {one.process_id for one in group.trajectories} - {None}
    return Isolation(len(group), len(processes), sum(repeated))
