# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Networks that continue the actions which a robot executes until the answer arrives: real-time chunking.

The flow network draws a chunk by flow matching, and can be guided to continue a prefix. That is from Black et
al. 2025, Real-Time Execution of Action Chunking Flow Policies, arXiv:2506.07339. The ramp of the prefix
weights is linear, as by default in LeRobot; in the paper it is exponential. Flow time runs from 0 (noise) to
1 (actions).

The inputs of a prefix network include the actions executed until then (training-time RTC). That is from Black
et al. 2025, Training-Time Action Conditioning for Efficient Real-Time Chunking, arXiv:2512.05964. Inputs
besides the observation: the actions that will be executed, the delay, and how many of its ticks have an
action; in the others the robot stands still. The answer is those actions, then new ones, whose first is for
the moment of arrival.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from remote_inference.base.policy import Continuation, Float32Array
from remote_inference.server.policies.networks.chunk_network import (
    NetworkSettings,
    ObservationNetwork,
    make_head,
)
from remote_inference.server.policies.trained_policy import ModelInput, draw_noise, prefix_arrays


def prefix_weights(
    prefix_rows: int, delay_steps: int, execution_horizon: int, chunk_size: int
) -> Float32Array:
    """Return the weight `[chunk_size]` of each action of the prefix in the chunk that continues it.

    The weight is 1 for the actions that are executed before the chunk arrives, then falls linearly to 0 at
    `execution_horizon` or at the prefix's end, whichever is earlier. A longer delay gives ones up to there.
    """
    end = min(execution_horizon, prefix_rows, chunk_size)
    start = min(max(delay_steps, 0), end)
    ramp = (end - np.arange(chunk_size)) / (end - start + 1)
    return np.clip(ramp, 0.0, 1.0).astype(np.float32)


def guidance_weight(time: float, maximum: float) -> float:
    """Return the factor of the correction at flow time 0 <= `time` < 1, at most `maximum`.

    The factor is `(1 - t) / (t r^2)` with `r^2 = (1 - t)^2 / (t^2 + (1 - t)^2)`, which is infinite at 0.
    """
    if time <= 0.0:
        return maximum
    rest = 1.0 - time
    return min(maximum, (time**2 + rest**2) / (time * rest))


_TIME_FREQUENCIES = 4


class FlowSampler(ObservationNetwork):
    """The base of the networks that draw a chunk by flow matching, in Euler steps from noise.

    The network predicts the clean chunk behind a noisy one, which gives the flow's velocity. The noise is a
    function of the request's seed, so equal requests give equal chunks.
    """

    samples = True

    def forward(self, features: torch.Tensor, noisy: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Return the expected chunk `[batch, chunk_size, action_dim]`.

        features: `[batch, values]`, with which the head was made. noisy: `time * chunk + (1 - time) * noise`,
        shaped as the chunk. time: `[batch]`, 0 to 1.
        """
        return self.apply_head(flow_inputs(features, noisy, time))

    def sample(
        self,
        features: torch.Tensor,
        noise: torch.Tensor,
        guidance: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """Return the chunk that the flow makes of `noise` `[batch, chunk_size, action_dim]`.

        guidance: the actions to continue, shaped as the noise, and their weights `[batch, chunk_size]`.
        """
        chunk = noise
        steps = self.settings.denoising_steps
        for step in range(steps):
            time = step / steps
            times = features.new_full((chunk.shape[0],), time)
            if guidance is None:
                velocity = (self(features, chunk, times) - chunk) / (1.0 - time)
            else:
                denoised, correction = self._correct(features, chunk, times, *guidance)
                strength = guidance_weight(time, self.settings.max_guidance_weight)
                velocity = (denoised - chunk) / (1.0 - time) + strength * correction
            chunk = chunk + velocity / steps
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


class FlowNetwork(FlowSampler):
    """Maps camera images and joint state to a normalised action chunk, which can be guided by a prefix."""

    continuation = Continuation.GUIDANCE

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__(settings)
        self.head = make_flow_head(self.feature_dim, settings)

    def answer(
        self, images: Sequence[torch.Tensor], state: torch.Tensor, batch: Sequence[ModelInput]
    ) -> torch.Tensor:
        """Return normalised actions `[batch, chunk_size, action_dim]`, each continuing its own prefix."""
        features = self.observe(images, state)
        noise = np.stack([draw_noise(sample, self.chunk_shape) for sample in batch])
        prefix = np.stack([_pad(sample.prefix, self.chunk_shape) for sample in batch])
        horizon, rows = self.settings.execution_horizon, self.chunk_shape[0]
        weights = np.stack([prefix_weights(len(s.prefix), s.delay_steps, horizon, rows) for s in batch])

        def tensor(array: Float32Array) -> torch.Tensor:
            return torch.from_numpy(array).to(features)

        guidance = (tensor(prefix), tensor(weights)) if weights.any() else None
        return self.sample(features, tensor(noise), guidance)


def make_flow_head(feature_dim: int, settings: NetworkSettings) -> torch.nn.Sequential:
    """Return the layers from `flow_inputs` to the expected chunk `[batch, chunk_size * action_dim]`."""
    return make_head(
        settings.chunk_size * settings.action_dim + feature_dim + 2 * _TIME_FREQUENCIES, settings
    )


def flow_inputs(features: torch.Tensor, noisy: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
    """Return the head's inputs for noisy chunks `[batch, chunk_size, action_dim]` at flow time `[batch]`."""
    octaves = 0.5 * math.pi * 2.0 ** torch.arange(_TIME_FREQUENCIES, device=time.device, dtype=time.dtype)
    angles = time[:, None] * octaves
    return torch.cat([noisy.flatten(1), features, angles.sin(), angles.cos()], dim=1)


def _pad(prefix: Float32Array, shape: tuple[int, int]) -> Float32Array:
    """Return the prefix in a chunk's shape: cut, or padded with zeros, which get no weight."""
    known = prefix[: shape[0]]
    return np.pad(known, ((0, shape[0] - len(known)), (0, 0)))


@dataclass(frozen=True)
class ActionPrefix:
    """What robots execute between their observations and the answers, as `prefix_arrays`, in torch.

    actions: `[batch, max_delay_steps, action_dim]`, normalised; those from `executed` on do not matter.
    executed, delay: `[batch]` control ticks, `executed <= delay <= max_delay_steps`.
    """

    actions: torch.Tensor
    executed: torch.Tensor
    delay: torch.Tensor


class PrefixNetwork(ObservationNetwork):
    """The base of both heads: encodes an action prefix, and returns a chunk that begins with its actions."""

    continuation = Continuation.TRAINED
    position_columns: torch.Tensor

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__(settings)
        self.max_delay_steps = settings.max_delay_steps
        self.register_buffer("position_columns", torch.tensor(settings.position_columns), persistent=False)
        self.input_dim = self.feature_dim + (1 + self.max_delay_steps) * settings.action_dim + 2

    def encode(
        self, features: torch.Tensor, state: torch.Tensor, prefix: ActionPrefix
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the head's inputs `[batch, input_dim]` and the newest executed action `[batch, action_dim]`.

        features: `[batch, feature_dim]` of `observe`. state: `[batch, state_dim]` in robot units. The
        actions go in newest first and relative to the newest; where there is none, the measured position
        stands for it.
        """
        measured = (state[:, self.position_columns] - self.action_mean) / self.action_std
        ages = torch.arange(self.max_delay_steps, device=state.device)
        newest_first = _pick(prefix.actions, prefix.executed[:, None] - 1 - ages)
        is_known = (ages < prefix.executed[:, None])[..., None]
        rows = torch.where(is_known, newest_first, measured[:, None])
        newest = rows[:, 0]
        ticks = torch.stack([prefix.delay, prefix.executed], dim=1).to(features) / self.max_delay_steps
        return torch.cat([features, newest, (rows - newest[:, None]).flatten(1), ticks], dim=1), newest

    def answer(
        self, images: Sequence[torch.Tensor], state: torch.Tensor, batch: Sequence[ModelInput]
    ) -> torch.Tensor:
        """Return normalised actions `[batch, chunk_size, action_dim]`, beginning with the executed ones."""
        actions, executed, delay = prefix_arrays(batch, self.max_delay_steps)
        prefix = ActionPrefix(
            torch.from_numpy(actions).to(state),
            torch.from_numpy(executed).to(state.device),
            torch.from_numpy(delay).to(state.device),
        )
        noise = np.stack([draw_noise(sample, self.chunk_shape) for sample in batch])
        return self.continue_prefix(images, state, prefix, torch.from_numpy(noise).to(state))

    def continue_prefix(
        self, images: Sequence[torch.Tensor], state: torch.Tensor, prefix: ActionPrefix, noise: torch.Tensor
    ) -> torch.Tensor:
        """Return the chunk of a prefix. noise: `[batch, chunk_size, action_dim]`, for those who draw."""
        inputs, newest = self.encode(self.observe(images, state), state, prefix)
        new_rows = newest[:, None] + self.predict_motion(inputs, noise)
        steps = torch.arange(self.chunk_shape[0], device=state.device)
        is_executed = (steps < prefix.executed[:, None])[..., None]
        executed = _pick(prefix.actions, steps.expand(state.shape[0], -1))
        return torch.where(is_executed, executed, _pick(new_rows, steps - prefix.executed[:, None]))

    def predict_motion(self, inputs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Return the actions from the arrival on, less the newest one: `[batch, chunk_size, action_dim]`."""
        raise NotImplementedError


class PrefixChunkNetwork(PrefixNetwork):
    """Predicts the mean of the actions from the arrival on, by regression."""

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__(settings)
        self.head = make_head(self.input_dim, settings)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the motion `[batch, chunk_size, action_dim]` for the inputs of `encode`."""
        return self.apply_head(inputs)

    def predict_motion(
        self,
        inputs: torch.Tensor,
        noise: torch.Tensor,  # noqa: ARG002  nothing is random here
    ) -> torch.Tensor:
        motion: torch.Tensor = self(inputs)
        return motion


class PrefixFlowNetwork(PrefixNetwork, FlowSampler):
    """Draws the actions from the arrival on by flow matching, without guidance."""

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__(settings)
        self.head = make_flow_head(self.input_dim, settings)

    def predict_motion(self, inputs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return self.sample(inputs, noise)


def _pick(rows: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Return `rows[:, indices]` of `[batch, n, dim]` with indices `[batch, m]`, clamped to the rows."""
    clamped = indices.clamp(0, rows.shape[1] - 1)
    return rows.gather(1, clamped[..., None].expand(-1, -1, rows.shape[2]))
