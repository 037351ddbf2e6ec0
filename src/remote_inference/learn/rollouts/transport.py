# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How a rollout pool reaches the slots that it leases: in this process, or through the services of a node."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from remote_inference.learn.environment import EnvironmentObservation, EnvironmentSpec, Metrics, Step
from remote_inference.learn.environments.policy_view import Actions
from remote_inference.learn.environments.process_environment import ProcessEnvironment, Touch
from remote_inference.learn.environments.slot_pool import Grant, SlotPool


class LeasedSlots(ABC):
    """The environments of a whole lease. `index` counts the lease's own slots, from 0.

    Every call has a deadline. Each raises EnvError for the environment, LeaseError when the lease has ended.
    """

    spec: EnvironmentSpec
    slots: tuple[int, ...]  # of the pool
    process_ids: tuple[int | None, ...]
    lease_s: float  # from one renewal to the latest next one

    async def reset(self, index: int, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        """Begin an episode."""
        shown: EnvironmentObservation = await self.touch(index, Touch("reset", seed, task, wanted))
        return shown

    async def execute(self, index: int, actions: Actions) -> Sequence[Step]:
        """Execute actions `[n, A]` until the episode ends; return the outcome of each executed one."""
        steps: Sequence[Step] = await self.touch(index, Touch("execute", actions=actions))
        return steps

    async def metrics(self, index: int) -> Metrics:
        """Return what the environment has computed about the episode."""
        metrics: Metrics = await self.touch(index, Touch("metrics"))
        return metrics

    async def render(self, index: int) -> NDArray[np.uint8]:
        """Return a picture of the present, RGB `[height, width, 3]`."""
        picture: NDArray[np.uint8] = await self.touch(index, Touch("render"))
        return picture

    @abstractmethod
    async def touch(self, index: int, touch: Touch) -> Any:
        """Run a call on a slot's environment, after its earlier ones; return what it shows."""

    @abstractmethod
    async def renew(self) -> None:
        """Extend the lease by `lease_s` from now."""

    @abstractmethod
    async def release(self) -> None:
        """End the lease, whatever runs in its slots; safe to call again."""


class Transport(Protocol):
    """A way to lease slots. One event loop uses it."""

    async def lease(self, holder: str, count: int) -> LeasedSlots:
        """Return slots that are all connected and reset. Raises the first error when one is not.

        A caller that is cancelled holds nothing.
        """

    async def close(self) -> None:
        """Free what the transport holds; safe to call again."""


class LocalSlots(LeasedSlots):
    """Slots of this process: a process of its own for each environment, and no node."""

    def __init__(self, pool: SlotPool, grant: Grant) -> None:
        self.spec, self.lease_s = grant.spec, grant.lease_s
        self.slots, self.process_ids = grant.slots, grant.process_ids
        self._pool, self._lease_id = pool, grant.lease_id

    async def touch(self, index: int, touch: Touch) -> Any:
        return await asyncio.wrap_future(self._pool.call(self._lease_id, self.slots[index], touch.run))

    async def renew(self) -> None:
        self._pool.renew(self._lease_id)

    async def release(self) -> None:
        await asyncio.wrap_future(self._pool.release(self._lease_id))


class LocalTransport:
    """Leases slots of a SlotPool of this process, which it closes in the end."""

    def __init__(self, pool: SlotPool) -> None:
        self._pool = pool

    @classmethod
    def of(cls, environment: str, options: Mapping[str, Any], slots: int) -> LocalTransport:
        """Return a transport to environments by name, each in a process of its own from its first lease."""
        return cls(SlotPool(lambda: ProcessEnvironment(environment, options), slots))

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
