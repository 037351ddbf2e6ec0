# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The chunk network: a small convolutional encoder with spatial softmax per camera, then an MLP head.

The flow network shares everything but the head.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from remote_inference.core.policy import Continuation
from remote_inference.policies.model_input import ModelInput

HIDDEN_UNITS = 256
CHANNELS = (16, 32, 32)


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


class ObservationNetwork(nn.Module):
    """The part that all chunk policies share: one encoder per camera, and the normalisation.

    The normalisation of state and actions is stored in buffers, so one weights file holds everything.
    """

    continuation = Continuation.NONE
    samples = False  # whether a chunk depends on the request's seed
    state_mean: torch.Tensor
    state_std: torch.Tensor
    action_mean: torch.Tensor
    action_std: torch.Tensor

    def __init__(
        self,
        *,
        image_sizes: Sequence[tuple[int, int]],
        state_dim: int,
        action_dim: int,
        chunk_size: int,
        channels: Sequence[int],
    ) -> None:
        super().__init__()
        self.chunk_shape = (chunk_size, action_dim)
        self.feature_dim = 2 * channels[-1] * len(image_sizes) + state_dim
        self.encoders = nn.ModuleList(CameraEncoder(height, width, channels) for height, width in image_sizes)
        self.register_buffer("state_mean", torch.zeros(state_dim))
        self.register_buffer("state_std", torch.ones(state_dim))
        self.register_buffer("action_mean", torch.zeros(action_dim))
        self.register_buffer("action_std", torch.ones(action_dim))

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


class ChunkNetwork(ObservationNetwork):
    """Maps camera images and joint state to one normalised action chunk, by regression."""

    def __init__(
        self,
        *,
        image_sizes: Sequence[tuple[int, int]],
        state_dim: int,
        action_dim: int,
        chunk_size: int,
        channels: Sequence[int] = CHANNELS,
        hidden_units: int = HIDDEN_UNITS,
    ) -> None:
        super().__init__(
            image_sizes=image_sizes,
            state_dim=state_dim,
            action_dim=action_dim,
            chunk_size=chunk_size,
            channels=channels,
        )
        self.head = nn.Sequential(
            nn.Linear(self.feature_dim, hidden_units),
            nn.ReLU(),
            nn.Linear(hidden_units, hidden_units),
            nn.ReLU(),
            nn.Linear(hidden_units, chunk_size * action_dim),
        )

    def forward(self, images: Sequence[torch.Tensor], state: torch.Tensor) -> torch.Tensor:
        """Return normalised actions `[batch, chunk_size, action_dim]`. Takes the arguments of `observe`."""
        chunk: torch.Tensor = self.head(self.observe(images, state)).unflatten(1, self.chunk_shape)
        return chunk

    def answer(
        self,
        images: Sequence[torch.Tensor],
        state: torch.Tensor,
        batch: Sequence[ModelInput],  # noqa: ARG002  this network continues no prefixes
    ) -> torch.Tensor:
        chunk: torch.Tensor = self(images, state)
        return chunk
