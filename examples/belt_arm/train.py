# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Trains the belt arm's networks on the expert's chunks, by regression and by flow matching."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn

from belt_arm.collect import Dataset
from belt_arm.labelled_episode import DelayedDataset
from belt_arm.learner import draw_motions, see, with_noise
from remote_inference.server.policies.networks.chunk_network import ChunkNetwork, ObservationNetwork
from remote_inference.server.policies.networks.rtc_network import (
    FlowNetwork,
    PrefixChunkNetwork,
    PrefixFlowNetwork,
)
from remote_inference.server.policies.networks.torch_chunk import (
    FlowConfig,
    PrefixFlowConfig,
    PrefixRegressionConfig,
    RegressionConfig,
)

Network = TypeVar("Network", bound=ObservationNetwork)

_WARMUP_STEPS = 100
_LOWEST_LEARNING_RATE_SHARE = 0.02
_TIME_MARGIN = 0.1  # keeps the flow's loss finite at time 1


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
    policy: RegressionConfig,
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

    def loss() -> torch.Tensor:
        frames = torch.randint(len(states), (config.batch_size,))
        targets = (chunks[frames] - network.action_mean) / network.action_std
        prediction = network(images[frames].unbind(1), with_noise(states[frames]))
        distance: torch.Tensor = (prediction - targets).abs().mean()
        return distance

    _minimise(loss, network, config, lambda step, value: progress(f"train: step {step}, L1 {value:.4f}"))
    return network.eval()


def train_flow(
    dataset: Dataset,
    policy: FlowConfig,
    teacher: ChunkNetwork,
    config: TrainingConfig,
    progress: Callable[[str], None] = print,
) -> FlowNetwork:
    """Return a flow network with the trained encoders of `teacher`; only its head is trained."""
    network = _begin(policy.make_network, teacher, config)
    states = torch.from_numpy(dataset.states)
    views = torch.from_numpy(see(network, dataset.images, dataset.states))
    targets = (torch.from_numpy(dataset.chunks) - network.action_mean) / network.action_std

    def loss() -> torch.Tensor:
        frames = torch.randint(len(states), (config.batch_size,))
        state = (with_noise(states[frames]) - network.state_mean) / network.state_std
        features = torch.cat([views[frames], state], dim=1)
        chunk = targets[frames]
        return _flow_loss(lambda noisy, time: network(features, noisy, time), chunk)

    _minimise(loss, network, config, lambda step, value: progress(f"flow: step {step}, loss {value:.4f}"))
    return network.eval()


def train_prefix(
    dataset: DelayedDataset,
    policy: PrefixRegressionConfig,
    teacher: ObservationNetwork,
    config: TrainingConfig,
    progress: Callable[[str], None] = print,
) -> PrefixChunkNetwork:
    """Return a network that continues what is executed, with the encoders of `teacher` that saw the data."""
    network = _begin(policy.make_network, teacher, config)
    draw = draw_motions(network, dataset, config.batch_size)

    def loss() -> torch.Tensor:
        inputs, motion = draw()
        distance: torch.Tensor = (network(inputs) - motion).abs().mean()
        return distance

    _minimise(loss, network, config, lambda step, value: progress(f"prefix: step {step}, L1 {value:.4f}"))
    return network.eval()


def train_prefix_flow(
    dataset: DelayedDataset,
    policy: PrefixFlowConfig,
    teacher: ObservationNetwork,
    config: TrainingConfig,
    progress: Callable[[str], None] = print,
) -> PrefixFlowNetwork:
    """Return a flow network in place of `train_prefix`'s regression."""
    network = _begin(policy.make_network, teacher, config)
    draw = draw_motions(network, dataset, config.batch_size)

    def loss() -> torch.Tensor:
        inputs, motion = draw()
        return _flow_loss(lambda noisy, time: network(inputs, noisy, time), motion)

    _minimise(loss, network, config, lambda step, value: progress(f"prefix flow: step {step}, {value:.4f}"))
    return network.eval()


def _begin(
    make_network: Callable[[], Network], teacher: ObservationNetwork, config: TrainingConfig
) -> Network:
    """Return a new network with the teacher's encoders and normalisation, which are not trained further."""
    torch.set_num_threads(1)
    torch.manual_seed(config.seed)
    network = make_network()
    shared = {name: value for name, value in teacher.state_dict().items() if not name.startswith("head.")}
    network.load_state_dict(shared, strict=False)
    network.encoders.requires_grad_(False)
    return network


def _flow_loss(
    network: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], chunk: torch.Tensor
) -> torch.Tensor:
    """Return the loss of a network that predicts `chunk` from a noisy one and the flow time."""
    time = torch.rand(len(chunk))
    noisy = torch.lerp(torch.randn_like(chunk), chunk, time[:, None, None])
    error = (network(noisy, time) - chunk).square().mean((1, 2))
    return (error / (1.0 - time + _TIME_MARGIN)).mean()


def _minimise(
    loss: Callable[[], torch.Tensor],
    network: nn.Module,
    config: TrainingConfig,
    progress: Callable[[int, float], None],
) -> None:
    """Run `config.steps` optimiser steps; `loss` draws a batch in each, `progress` gets the running mean."""
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=config.learning_rate, weight_decay=config.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate_share(step, config.steps))
    running = 0.0
    for step in range(1, config.steps + 1):
        value = loss()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        schedule.step()
        running = 0.99 * running + 0.01 * value.item() if step > 1 else value.item()
        if step % 500 == 0:
            progress(step, running)


def _rate_share(step: int, steps: int) -> float:
    """Return the share of the learning rate: a linear warm-up, then a cosine."""
    cosine = 0.5 * (1.0 + math.cos(math.pi * step / steps))
    return max(_LOWEST_LEARNING_RATE_SHARE, cosine) * min(1.0, (step + 1) / _WARMUP_STEPS)
