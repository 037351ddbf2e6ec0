# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What lies between a pool of rollouts and the slots that it leases: this process, or services of a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.environment import EnvironmentObservation, EnvironmentSpec, Metrics, Step
from remote_inference.environments.policy_view import Actions


class LeasedSlots(Protocol):
    """The environments of a whole lease. `index` counts the lease's own slots, from 0.

    Every call has a deadline. Each raises EnvError for the environment, LeaseError when the lease has ended.
    """

    spec: EnvironmentSpec
    slots: tuple[int, ...]  # of the pool
    process_ids: tuple[int | None, ...]
    lease_s: float  # from one renewal to the latest next one

    async def reset(self, index: int, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        """Begin an episode."""

    async def execute(self, index: int, rows: Actions) -> Sequence[Step]:
        """Execute rows `[n, A]` until the episode ends; return the outcome of each that was executed."""

    async def metrics(self, index: int) -> Metrics:
        """Return what the environment has computed about the episode."""

    async def render(self, index: int) -> NDArray[np.uint8]:
        """Return a picture of the present, RGB `[height, width, 3]`."""

    async def renew(self) -> None:
        """Let the lease last on."""

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
