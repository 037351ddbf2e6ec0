# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Goes on training a network of the belt arm while an older version of it is used.

The recipe is that of `collect_delayed` and `train_prefix`: the expert labels rollouts for delays drawn at
random, so that what was learned about other delays is not forgotten. Only the head is trained.
"""

from __future__ import annotations

import torch

from remote_inference.core.policy import Float32Array
from remote_inference.environments.belt_arm.collect_delayed import DelayedDataset, Images, collect_episode
from remote_inference.environments.belt_arm.scene import BeltArm
from remote_inference.environments.belt_arm.train import draw_motions, see
from remote_inference.policies.networks.prefix_network import PrefixChunkNetwork

BATCH_SIZE = 256
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-4
_FIRST_SEED, _SEEDS_PER_LEARNER = 100_000, 10_000  # of episodes, of which none is another learner's


class Learner:
    """Gathers rollouts and takes optimiser steps, in the order its owner asks for.

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
        """Take optimiser steps over all that was gathered; return their mean loss (L1, normalised)."""
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
