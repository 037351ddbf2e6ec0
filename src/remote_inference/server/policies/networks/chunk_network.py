# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The base of the networks, a small convolutional encoder with spatial softmax per camera; and regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from remote_inference.base.policy import Continuation
from remote_inference.server.policies.trained_policy import ModelInput


class SpatialSoftmax(nn.Module):
    """The mean position of every channel in [-1, 1]: `[batch, c, h, w]` to `[batch, 2c]`."""

    positions: torch.Tensor

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        y, x = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
        self.register_buffer("positions", torch.stack([x.flatten(), y.flatten()], dim=1), persistent=False)
        self.temperature = nn.Parameter(torch.ones(1))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(features.flatten(2) * self.temperature, dim=-1)
        return (weights @ self.positions).flatten(1)


class CameraEncoder(nn.Module):
    """Finds the positions of features in an image: `[batch, 3, h, w]` to `[batch, 2 * channels[-1]]`."""

    def __init__(self, height: int, width: int, channels: Sequence[int]) -> None:
        super().__init__()
        first, second, third = channels
        self.convolutions = nn.Sequential(
            nn.Conv2d(3, first, kernel_size=5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(first, second, kernel_size=3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(second, third, kernel_size=3, padding=1),
        )
        self.pool = SpatialSoftmax(-(-height // 4), -(-width // 4))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        positions: torch.Tensor = self.pool(torch.relu(self.convolutions(image)))
        return positions


@dataclass(frozen=True)
class NetworkSettings:
    """Sizes of a network, and the numbers that only some kinds use: keys of `policy.json`.

    image_sizes: `(height, width)` of each camera [px]. position_columns: of the state, the measured position
    of each action.
    """

    image_sizes: Sequence[tuple[int, int]]
    state_dim: int
    action_dim: int
    chunk_size: int
    channels: Sequence[int]
    hidden_units: int
    denoising_steps: int = 0
    execution_horizon: int = 0
    max_guidance_weight: float = 0.0
    max_delay_steps: int = 0
    position_columns: Sequence[int] = ()


class ObservationNetwork(nn.Module):
    """The base of all chunk policies: one encoder per camera, the normalisation, and a head of linear layers.

    The normalisation of state and actions is stored in buffers, so one weights file holds everything.
    """

    continuation = Continuation.NONE
    samples = False  # whether a chunk depends on the request's seed
    state_mean: torch.Tensor
    state_std: torch.Tensor
    action_mean: torch.Tensor
    action_std: torch.Tensor
    head: nn.Sequential  # made by each network

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        self.settings = settings
        self.chunk_shape = (settings.chunk_size, settings.action_dim)
        self.feature_dim = 2 * settings.channels[-1] * len(settings.image_sizes) + settings.state_dim
        self.encoders = nn.ModuleList(
            CameraEncoder(*size, settings.channels) for size in settings.image_sizes
        )
        self.register_buffer("state_mean", torch.zeros(settings.state_dim))
        self.register_buffer("state_std", torch.ones(settings.state_dim))
        self.register_buffer("action_mean", torch.zeros(settings.action_dim))
        self.register_buffer("action_std", torch.ones(settings.action_dim))

    def observe(self, images: Sequence[torch.Tensor], state: torch.Tensor) -> torch.Tensor:
        """Return features `[batch, feature_dim]`.

        images: uint8 `[batch, 3, height, width]` per camera. state: `[batch, state_dim]` in robot units.
        """
        features = [
            encoder(image.to(state.dtype) / 127.5 - 1.0)
            for encoder, image in zip(self.encoders, images, strict=True)
        ]
        features.append((state - self.state_mean) / self.state_std)
        return torch.cat(features, dim=1)

    def answer(
        self, images: Sequence[torch.Tensor], state: torch.Tensor, batch: Sequence[ModelInput]
    ) -> torch.Tensor:
        """Return normalised actions `[batch, chunk_size, action_dim]`. batch: inputs with their prefixes."""
        raise NotImplementedError

    def apply_head(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the head's output for `[batch, inputs]`, as `[batch, chunk_size, action_dim]`."""
        actions: torch.Tensor = self.head(inputs).unflatten(1, self.chunk_shape)
        return actions


def make_head(
    inputs: int, settings: NetworkSettings, hidden_layers: int = 3, activation: type[nn.Module] = nn.SiLU
) -> nn.Sequential:
    """Return linear layers from `inputs` values to those of a chunk, `chunk_size * action_dim`."""
    layers: list[nn.Module] = []
    for _ in range(hidden_layers):
        layers += [nn.Linear(inputs, settings.hidden_units), activation()]
        inputs = settings.hidden_units
    return nn.Sequential(*layers, nn.Linear(inputs, settings.chunk_size * settings.action_dim))


class ChunkNetwork(ObservationNetwork):
    """Maps camera images and joint state to one normalised action chunk, by regression."""

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__(settings)
        self.head = make_head(self.feature_dim, settings, 2, nn.ReLU)

    def forward(self, images: Sequence[torch.Tensor], state: torch.Tensor) -> torch.Tensor:
        """Return normalised actions `[batch, chunk_size, action_dim]`. Takes the arguments of `observe`."""
        return self.apply_head(self.observe(images, state))

    def answer(
        self,
        images: Sequence[torch.Tensor],
        state: torch.Tensor,
        batch: Sequence[ModelInput],  # noqa: ARG002  this network continues no prefixes
    ) -> torch.Tensor:
        chunk: torch.Tensor = self(images, state)
        return chunk
