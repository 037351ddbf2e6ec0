# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The flow network: draws a chunk by flow matching, and can be guided to continue a prefix (RTC)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from remote_inference.core.policy import Continuation, Float32Array
from remote_inference.core.rtc import guidance_weight, prefix_weights
from remote_inference.policies.model_input import ModelInput, draw_noise
from remote_inference.policies.networks.chunk_network import CHANNELS, HIDDEN_UNITS, ObservationNetwork

_TIME_FREQUENCIES = 4


class FlowNetwork(ObservationNetwork):
    """Maps camera images and joint state to a normalised action chunk, in Euler steps from noise.

    The network predicts the clean chunk behind a noisy one, which gives the flow's velocity. The noise is a
    function of the request's seed, so equal requests give equal chunks.
    """

    continuation = Continuation.GUIDANCE
    samples = True

    def __init__(
        self,
        *,
        image_sizes: Sequence[tuple[int, int]],
        state_dim: int,
        action_dim: int,
        chunk_size: int,
        channels: Sequence[int] = CHANNELS,
        hidden_units: int = HIDDEN_UNITS,
        denoising_steps: int,
        execution_horizon: int,
        max_guidance_weight: float,
    ) -> None:
        super().__init__(
            image_sizes=image_sizes,
            state_dim=state_dim,
            action_dim=action_dim,
            chunk_size=chunk_size,
            channels=channels,
        )
        self.denoising_steps = denoising_steps
        self.execution_horizon = execution_horizon
        self.max_guidance_weight = max_guidance_weight
        self.head = make_flow_head(self.feature_dim, self.chunk_shape, hidden_units)

    def forward(self, features: torch.Tensor, noisy: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Return the expected chunk `[batch, chunk_size, action_dim]`.

        features: `[batch, feature_dim]` of `observe`. noisy: `time * chunk + (1 - time) * noise`, shaped as
        the chunk. time: `[batch]`, 0 to 1.
        """
        chunk: torch.Tensor = self.head(flow_inputs(features, noisy, time)).unflatten(1, self.chunk_shape)
        return chunk

    def answer(
        self, images: Sequence[torch.Tensor], state: torch.Tensor, batch: Sequence[ModelInput]
    ) -> torch.Tensor:
        """Return normalised actions `[batch, chunk_size, action_dim]`, each continuing its own prefix."""
        features = self.observe(images, state)
        noise = np.stack([draw_noise(sample, self.chunk_shape) for sample in batch])
        prefix = np.stack([_pad(sample.prefix, self.chunk_shape) for sample in batch])
        weights = np.stack(
            [
                prefix_weights(
                    len(sample.prefix), sample.delay_steps, self.execution_horizon, self.chunk_shape[0]
                )
                for sample in batch
            ]
        )

        def tensor(array: Float32Array) -> torch.Tensor:
            return torch.from_numpy(array).to(features)

        guidance = (tensor(prefix), tensor(weights)) if weights.any() else None
        return self.sample(features, tensor(noise), guidance)

    def sample(
        self,
        features: torch.Tensor,
        noise: torch.Tensor,
        guidance: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """Return the chunk that the flow makes of `noise` `[batch, chunk_size, action_dim]`.

        guidance: the rows to continue, shaped as the noise, and the weight `[batch, chunk_size]` of each row.
        """
        chunk = noise
        for step in range(self.denoising_steps):
            time = step / self.denoising_steps
            times = features.new_full((chunk.shape[0],), time)
            if guidance is None:
                velocity = (self(features, chunk, times) - chunk) / (1.0 - time)
            else:
                denoised, correction = self._correct(features, chunk, times, *guidance)
                strength = guidance_weight(time, self.max_guidance_weight)
                velocity = (denoised - chunk) / (1.0 - time) + strength * correction
            chunk = chunk + velocity / self.denoising_steps
        return chunk

    def _correct(
        self,
        features: torch.Tensor,
        chunk: torch.Tensor,
        times: torch.Tensor,
        prefix: torch.Tensor,
        weights: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the denoised chunk, and the change of the noisy chunk that moves it closer to the prefix."""
        with torch.enable_grad():
            noisy = chunk.detach().requires_grad_()
            # Never compiled: the warm-up continues no prefix, and a robot would wait for the compiler.
            denoised = self.forward(features, noisy, times)
            error = ((prefix - denoised) * weights[..., None]).detach()
            (correction,) = torch.autograd.grad(denoised, noisy, error)
        return denoised.detach(), correction


def make_flow_head(feature_dim: int, chunk_shape: tuple[int, int], hidden_units: int) -> nn.Sequential:
    """Return the layers from `flow_inputs` to the expected chunk `[batch, chunk_size * action_dim]`."""
    outputs = chunk_shape[0] * chunk_shape[1]
    return nn.Sequential(
        nn.Linear(outputs + feature_dim + 2 * _TIME_FREQUENCIES, hidden_units),
        nn.SiLU(),
        nn.Linear(hidden_units, hidden_units),
        nn.SiLU(),
        nn.Linear(hidden_units, hidden_units),
        nn.SiLU(),
        nn.Linear(hidden_units, outputs),
    )


def flow_inputs(features: torch.Tensor, noisy: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
    """Return one row for each noisy chunk `[batch, chunk_size, action_dim]` at flow time `[batch]`."""
    octaves = 0.5 * math.pi * 2.0 ** torch.arange(_TIME_FREQUENCIES, device=time.device, dtype=time.dtype)
    angles = time[:, None] * octaves
    return torch.cat([noisy.flatten(1), features, angles.sin(), angles.cos()], dim=1)


def _pad(prefix: Float32Array, shape: tuple[int, int]) -> Float32Array:
    """Return the prefix in a chunk's shape: cut, or padded with rows of zeros, which get no weight."""
    padded = np.zeros(shape, np.float32)
    known = prefix[: len(padded)]
    padded[: len(known)] = known
    return padded
