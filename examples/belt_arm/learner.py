# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Continues training a network of the belt arm while an older version of it is used.

The expert labels rollouts for delays drawn at random, so that what was learned about other delays is not
forgotten. Only the head is trained.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from belt_arm.labelled_episode import (
    DelayedDataset,
    Images,
    collect_episode,
)
from remote_inference.base.policy import Float32Array
from remote_inference.learn.environments.belt_arm.scene import BeltArm
from remote_inference.server.policies.networks.chunk_network import ObservationNetwork
from remote_inference.server.policies.networks.rtc_network import (
    ActionPrefix,
    PrefixChunkNetwork,
    PrefixNetwork,
)

BATCH_SIZE = 256
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-4
_STATE_NOISE = (0.005, 0.005, 0.005, 0.005, 0.005, 0.0005)
_FIRST_SEED, _SEEDS_PER_LEARNER = 100_000, 10_000  # of episodes, of which none is another learner's


class Learner:
    """Gathers rollouts and runs optimiser steps, in the order its owner asks for.

    Equal seeds and calls give equal weights on one machine.
    """

    def __init__(self, network: PrefixChunkNetwork, seed: int) -> None:
        """network: is changed in place."""
        torch.manual_seed(seed)
        self.network = network.train()
        network.requires_grad_(False)
        network.head.requires_grad_(True)
        self._optimizer = torch.optim.AdamW(
            network.head.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY
        )
        self._next_seed = _FIRST_SEED + seed * _SEEDS_PER_LEARNER
        self._arm = BeltArm()
        self._data: DelayedDataset | None = None
        self.steps = 0

    @property
    def episodes(self) -> int:
        return self._data.episodes if self._data else 0

    @property
    def frames(self) -> int:
        return len(self._data.states) if self._data else 0

    def gather(self, episodes: int) -> None:
        """Add the labelled frames of more rollouts."""
        parts = [self._data] if self._data else []
        for _ in range(episodes):
            parts.append(collect_episode(self._arm, self._next_seed, self._encode))
            self._next_seed += 1
        self._data = DelayedDataset.join(parts)

    def improve(self, steps: int) -> float:
        """Run optimiser steps over all that was gathered; return their mean loss (L1, normalised)."""
        assert self._data is not None, "gather comes first"
        draw = draw_motions(self.network, self._data, BATCH_SIZE)
        total = 0.0
        for _ in range(steps):
            inputs, motion = draw()
            loss = (self.network(inputs) - motion).abs().mean()
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
            total += loss.item()
        self.steps += steps
        return total / steps

    def close(self) -> None:
        self._arm.close()

    def _encode(self, images: Images, states: Float32Array) -> Float32Array:
        return see(self.network, images, states)


@torch.no_grad()
def see(network: ObservationNetwork, images: NDArray[np.uint8], states: Float32Array) -> Float32Array:
    """Return what the encoders see: features `[frames, cameras * features]`, without the joint state.

    images: `[frames, cameras, 3, height, width]`. states: `[frames, 6]`, in the type of the result.
    """
    features = [
        network.observe(some.unbind(1), state)[:, : -states.shape[1]]
        for some, state in zip(
            torch.from_numpy(images).split(256), torch.from_numpy(states).split(256), strict=True
        )
    ]
    return torch.cat(features).numpy()


def draw_motions(
    network: PrefixNetwork, dataset: DelayedDataset, batch_size: int
) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    """Return a function that draws a batch: the head's inputs, and plans relative to the newest action."""
    states, views = torch.from_numpy(dataset.states), torch.from_numpy(dataset.views)
    frame, plans = torch.from_numpy(dataset.frame), torch.from_numpy(dataset.plans)
    actions = (torch.from_numpy(dataset.actions) - network.action_mean) / network.action_std
    executed, ticks = torch.from_numpy(dataset.executed), torch.from_numpy(dataset.ticks)

    def draw() -> tuple[torch.Tensor, torch.Tensor]:
        chosen = torch.randint(len(plans), (batch_size,))
        state = states[frame[chosen]]
        normalised = (with_noise(state) - network.state_mean) / network.state_std
        features = torch.cat([views[frame[chosen]], normalised], dim=1)
        prefix = ActionPrefix(actions[chosen], executed[chosen], ticks[chosen])
        inputs, newest = network.encode(features, state, prefix)
        targets = (plans[chosen] - network.action_mean) / network.action_std
        return inputs, targets - newest[:, None]

    return draw


def with_noise(states: torch.Tensor) -> torch.Tensor:
    return states + torch.randn(*states.shape) * torch.tensor(_STATE_NOISE)
