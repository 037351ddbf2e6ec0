# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A pool of leased slots in which groups of rollouts are played, for programs that use asyncio.

async with RolloutPool(LocalTransport.of("belt_arm", {}, 8), 8) as pool:
    group = await pool.run_group(policy, seed=7)
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from typing_extensions import Self

from remote_inference.core.environment import EnvironmentSpec
from remote_inference.core.leases import LeaseError
from remote_inference.environments.policy_view import PolicyView
from remote_inference.environments.stepped_episode import SteppedEpisode
from remote_inference.errors import UserError
from remote_inference.rollouts.group import Group, Trajectory
from remote_inference.rollouts.group_policy import Answer, GroupPolicy, Sampling
from remote_inference.rollouts.rollout import Rollout
from remote_inference.rollouts.transport import LeasedSlots, Transport

Result = TypeVar("Result")

RENEWALS_IN_LEASE = 3.0  # so that one or two may be late
CLOSE_S = 60.0  # until a transport that does not close is given up
Progress = Callable[[int, int], None]  # takes a rollout and how many steps it has made


class RolloutError(UserError):
    """A group cannot be played; the message says why."""


class RolloutPool:
    """Slots of one lease. It has all of them or, before it is open and after a failure to open, none.

    One group is played at a time. An error in one rollout ends the group, and is the one that is raised;
    the pool can be used again.
    """

    def __init__(self, transport: Transport, count: int, *, holder: str = "") -> None:
        """transport: closed with the pool. holder: for others who ask for slots in vain."""
        self._transport = transport
        self._count = count
        self._holder = holder or f"process {os.getpid()} on {socket.gethostname()}"
        self._slots: LeasedSlots | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._is_playing = False

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            with suppress(Exception):  # the first error says more
                await self._within(self._transport.close())
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except Exception:
            if error is None:
                raise

    @property
    def slots(self) -> LeasedSlots:
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
        slots = await self._transport.lease(self._holder, self._count)
        self._slots = slots  # whole
        self._renewal = asyncio.create_task(self._renew(slots))

    async def close(self) -> None:
        """Release the slots and close the transport, within a minute; safe to call again.

        Raises the first error of the two.
        """
        slots, self._slots = self._slots, None
        renewal, self._renewal = self._renewal, None
        if renewal is not None:
            renewal.cancel()
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
        whose noise then comes from the seed; samplings: one for each slot, instead. execution_horizon: rows
        of each chunk that are executed; None: all. max_steps: of each rollout; None: until the environment
        ends it. keep_observations: of each control tick, in memory.
        Raises EnvError, LeaseError or PolicyError, the first of them; RolloutError while another group is
        played, or for another number of samplings than slots.
        """
        slots = self.slots
        drawn = tuple(samplings or Sampling.spread(seed, len(slots.slots), temperature))
        if len(drawn) != len(slots.slots):
            raise RolloutError(f"rollouts: found {len(drawn)} samplings, expected {len(slots.slots)}")
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
                    SteppedEpisode(
                        view, task, first, execution_horizon=execution_horizon, max_steps=max_steps
                    ),
                    first,
                    sampling,
                    keep_observations=keep_observations,
                )
                for first, sampling in zip(shown, drawn, strict=True)
            ]
            await self._play(slots, policy, rollouts, progress)
            trajectories = await gather(
                self._finish(slots, index, rollout) for index, rollout in enumerate(rollouts)
            )
        finally:
            self._is_playing = False
        return Group(slots.spec, task, seed, tuple(trajectories))

    @staticmethod
    async def _play(
        slots: LeasedSlots, policy: GroupPolicy, rollouts: Sequence[Rollout], progress: Progress | None
    ) -> None:
        async def execute(index: int, answer: Answer) -> None:
            rollout = rollouts[index]
            rows = rollout.plan(answer)
            rollout.note(answer, rows, await slots.execute(index, rows))
            if progress is not None:
                progress(index, rollout.steps)

        while running := [index for index, rollout in enumerate(rollouts) if not rollout.ended]:
            answers = await policy.answer([(index, rollouts[index].observe()) for index in running])
            await gather(execute(index, answer) for index, answer in zip(running, answers, strict=True))

    @staticmethod
    async def _finish(slots: LeasedSlots, index: int, rollout: Rollout) -> Trajectory:
        metrics = await slots.metrics(index)
        return rollout.finish(slots.slots[index], slots.process_ids[index], metrics)

    # -- the lease -----------------------------------------------------------------------------------------

    @staticmethod
    async def _renew(slots: LeasedSlots) -> None:
        while True:
            await asyncio.sleep(slots.lease_s / RENEWALS_IN_LEASE)
            try:
                await slots.renew()
            except LeaseError:
                return  # whoever touches a slot next is told
            except UserError:
                continue  # a renewal was lost; the next one may come in time

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
            task.exception()  # the others have been heard
        raise
