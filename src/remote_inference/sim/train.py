# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Trains the belt arm's chunk network by regression on the expert's chunks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from remote_inference.policies.chunk_config import ChunkPolicyConfig
from remote_inference.policies.chunk_network import ChunkNetwork
from remote_inference.sim.collect import Dataset

_WARMUP_STEPS = 100
_LOWEST_LEARNING_RATE_SHARE = 0.02
_STATE_NOISE = (0.005, 0.005, 0.005, 0.005, 0.005, 0.0005)


@dataclass(frozen=True)
class TrainingConfig:
    """One training run; equal values and data give equal weights on one machine."""

    steps: int = 2000
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    seed: int = 0


def train(
    dataset: Dataset,
    policy: ChunkPolicyConfig,
    config: TrainingConfig,
    progress: Callable[[str], None] = print,
) -> ChunkNetwork:
    """Return a network trained for `config.steps` steps on one CPU thread."""
    torch.set_num_threads(1)
    torch.manual_seed(config.seed)
    images = torch.from_numpy(dataset.images)
    states = torch.from_numpy(dataset.states)
    chunks = torch.from_numpy(dataset.chunks)
    network = policy.make_network()
    network.state_mean.copy_(states.mean(0))
    network.state_std.copy_(states.std(0) + 1e-3)
    network.action_mean.copy_(chunks.mean((0, 1)))
    network.action_std.copy_(chunks.std((0, 1)) + 1e-2)

    optimizer = torch.optim.AdamW(
        network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate_share(step, config.steps))
    state_noise = torch.tensor(_STATE_NOISE)
    running_loss = 0.0
    for step in range(1, config.steps + 1):
        frames = torch.randint(len(states), (config.batch_size,))
        noisy_states = states[frames] + torch.randn(config.batch_size, len(_STATE_NOISE)) * state_noise
        targets = (chunks[frames] - network.action_mean) / network.action_std
        prediction = network(images[frames].unbind(1), noisy_states)
        loss = (prediction - targets).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        running_loss = 0.99 * running_loss + 0.01 * loss.item() if step > 1 else loss.item()
        if step % 500 == 0:
            progress(f"train: step {step}/{config.steps}, L1 {running_loss:.4f}")
    return network.eval()


def _rate_share(step: int, steps: int) -> float:
    """Linear warm-up, then a cosine."""
    cosine = 0.5 * (1.0 + math.cos(math.pi * step / steps))
    return max(_LOWEST_LEARNING_RATE_SHARE, cosine) * min(1.0, (step + 1) / _WARMUP_STEPS)
