# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Shows that the rollouts of a group did not touch each other: each is repeated in another slot."""

from __future__ import annotations

from dataclasses import dataclass

from remote_inference.rollouts.group import Group, digest_observations
from remote_inference.rollouts.pool import RolloutError, RolloutPool, gather


@dataclass(frozen=True)
class Isolation:
    """processes: different ones among the slots'. repeated: rollouts that came out equal, bit for bit."""

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
