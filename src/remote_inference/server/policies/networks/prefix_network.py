# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Networks whose inputs include the actions executed until the answer arrives (training-time RTC).

The method is from Black et al. 2025, Training-Time Action Conditioning for Efficient Real-Time Chunking,
arXiv:2512.05964. Inputs besides the observation: the actions that will be executed, the delay, and how many
of its ticks have an action; in the others the robot stands still. The answer is those actions, then new ones,
whose first is for the moment of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from remote_inference.base.policy import Continuation
from remote_inference.server.policies.networks.chunk_network import (
    NetworkSettings,
    ObservationNetwork,
    make_head,
)
from remote_inference.server.policies.networks.flow_network import flow_inputs, make_flow_head
from remote_inference.server.policies.trained_policy import ModelInput, draw_noise, prefix_arrays


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


class PrefixFlowNetwork(PrefixNetwork):
    """Draws the actions from the arrival on by flow matching, without guidance."""

    samples = True

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__(settings)
        self.head = make_flow_head(self.input_dim, settings)

    def forward(self, inputs: torch.Tensor, noisy: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Return the expected motion `[batch, chunk_size, action_dim]` behind a noisy one.

        inputs: of `encode`. noisy: `time * motion + (1 - time) * noise`. time: `[batch]`, 0 to 1.
        """
        return self.apply_head(flow_inputs(inputs, noisy, time))

    def predict_motion(self, inputs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        motion = noise
        steps = self.settings.denoising_steps
        for step in range(steps):
            time = step / steps
            expected = self(inputs, motion, inputs.new_full((motion.shape[0],), time))
            motion = motion + (expected - motion) / (1.0 - time) / steps
        return motion


def _pick(rows: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Return `rows[:, indices]` of `[batch, n, dim]` with indices `[batch, m]`, clamped to the rows."""
    clamped = indices.clamp(0, rows.shape[1] - 1)
    return rows.gather(1, clamped[..., None].expand(-1, -1, rows.shape[2]))
