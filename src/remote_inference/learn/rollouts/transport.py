# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the slots of a rollout pool come from: processes of this machine, or a cluster (`ray_transport`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from remote_inference.learn.environments.process_environment import ProcessEnvironment
from remote_inference.learn.rollouts.slots import LeaseError, SlotEnvironment, Slots


class Transport(Protocol):
    """A way to lease slots. One event loop uses it."""

    async def lease(self, holder: str, count: int) -> Slots:
        """Return slots that are all connected and reset. Raises the first error when one is not.

        A caller that is cancelled holds nothing.
        """

    async def close(self) -> None:
        """Free what the transport holds; safe to call again."""


class LocalTransport:
    """Slots of this machine, for one pool or several: as many at a time as it was made for."""

    def __init__(self, make: Callable[[], SlotEnvironment], slots: int) -> None:
        """make: returns an environment that is not started."""
        self._make, self._slots = make, slots
        self._held: dict[Slots, str] = {}  # with their holders

    @classmethod
    def of(cls, environment: str, options: Mapping[str, Any], slots: int) -> LocalTransport:
        """Return a transport to environments by name, each in a process of its own while it is leased."""
        return cls(lambda: ProcessEnvironment(environment, options), slots)

    @property
    def free(self) -> int:
        """How many slots nobody holds."""
        return self._slots - sum(map(len, self._held))

    async def lease(self, holder: str, count: int) -> Slots:
        if not 1 <= count <= self._slots:
            raise LeaseError(f"lease: found {count} slots asked for, expected 1 to {self._slots}")
        if count > self.free:
            others = "".join(f", {len(slots)} held by {name}" for slots, name in self._held.items())
            load = f"{self.free} of {self._slots} are free{others}"
            raise LeaseError(f"lease: found {count} slots asked for; {load}")
        slots = Slots([self._make() for _ in range(count)], lambda: self._held.pop(slots, None))
        self._held[slots] = holder
        await slots.connect()
        return slots

    async def close(self) -> None:
        for slots in list(self._held):
            await slots.release()
