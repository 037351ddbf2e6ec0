# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Slots of this process: a process of its own for each environment, and no node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.environment import Environment, EnvironmentObservation, Metrics, Step
from remote_inference.environments.policy_view import Actions
from remote_inference.environments.process_environment import ProcessEnvironment
from remote_inference.environments.runners import Timeouts
from remote_inference.environments.slot_pool import Grant, SlotPool
from remote_inference.environments.stepped_episode import step_rows

Result = TypeVar("Result")


class LocalSlots:
    """The slots of a lease. See LeasedSlots."""

    def __init__(self, pool: SlotPool, grant: Grant) -> None:
        self.spec, self.lease_s = grant.spec, grant.lease_s
        self.slots, self.process_ids = grant.slots, grant.process_ids
        self._pool, self._lease_id = pool, grant.lease_id

    async def reset(self, index: int, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        return await self._touch(index, lambda one: one.reset(seed, task, wanted))

    async def execute(self, index: int, rows: Actions) -> Sequence[Step]:
        return await self._touch(index, lambda one: step_rows(one, rows))

    async def metrics(self, index: int) -> Metrics:
        return await self._touch(index, lambda one: one.metrics())

    async def render(self, index: int) -> NDArray[np.uint8]:
        return await self._touch(index, lambda one: one.render())

    async def renew(self) -> None:
        self._pool.renew(self._lease_id)

    async def release(self) -> None:
        await asyncio.wrap_future(self._pool.release(self._lease_id))

    async def _touch(self, index: int, touch: Callable[[Environment], Result]) -> Result:
        return await asyncio.wrap_future(self._pool.call(self._lease_id, self.slots[index], touch))


class LocalTransport:
    """Leases slots of a SlotPool of this process, which it closes in the end."""

    def __init__(self, pool: SlotPool) -> None:
        self._pool = pool

    @classmethod
    def of(
        cls, environment: str, options: Mapping[str, Any], slots: int, timeouts: Timeouts | None = None
    ) -> LocalTransport:
        """Return a transport to environments by name, each in a process of its own from its first lease."""
        return cls(
            SlotPool(lambda: ProcessEnvironment(environment, options, timeouts, starts_now=False), slots)
        )

    async def lease(self, holder: str, count: int) -> LocalSlots:
        lease_id, whole = self._pool.lease(holder, count)
        try:
            grant = await asyncio.wrap_future(whole)
        except asyncio.CancelledError:
            self._pool.release(lease_id)
            raise
        return LocalSlots(self._pool, grant)

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.close)
