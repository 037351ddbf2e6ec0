# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Networks that are told what the robot executes until their answer arrives (training-time RTC).

The method is from Black et al. 2025, Training-Time Action Conditioning for Efficient Real-Time Chunking,
arXiv:2512.05964. Inputs besides the observation: the rows that will be executed, the delay, and how many of
its ticks have a row; in the others the robot stands still. The answer is those rows, then new ones, whose
first is for the moment of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from remote_inference.core.policy import Continuation
from remote_inference.policies.model_input import ModelInput, draw_noise
from remote_inference.policies.networks.chunk_network import CHANNELS, HIDDEN_UNITS, ObservationNetwork
from remote_inference.policies.networks.flow_network import flow_inputs, make_flow_head
from remote_inference.policies.wait import wait_arrays


@dataclass(frozen=True)
class Wait:
    """What happens between the captures of a batch and their answers.

    rows: `[batch, max_delay_steps, action_dim]`, normalised, in the order of execution; those from `executed`
    on do not matter. executed, delay: `[batch]` control ticks, `executed <= delay <= max_delay_steps`.
    """

    rows: torch.Tensor
    executed: torch.Tensor
    delay: torch.Tensor

    @classmethod
    def of(cls, batch: Sequence[ModelInput], max_delay_steps: int, like: torch.Tensor) -> Wait:
        """Return the wait of each input, on the device of `like`; a longer delay counts as the longest."""
        arrays = wait_arrays(batch, max_delay_steps)
        return cls(
            torch.from_numpy(arrays.rows).to(like),
            torch.from_numpy(arrays.executed).to(like.device),
            torch.from_numpy(arrays.delay).to(like.device),
        )


class PrefixNetwork(ObservationNetwork):
    """The part that both heads share: the encoding of a wait, and the chunk that begins with its rows."""

    continuation = Continuation.TRAINED
    position_columns: torch.Tensor

    def __init__(
        self,
        *,
        image_sizes: Sequence[tuple[int, int]],
        state_dim: int,
        action_dim: int,
        chunk_size: int,
        channels: Sequence[int] = CHANNELS,
        max_delay_steps: int,
        position_columns: Sequence[int],
    ) -> None:
        """position_columns: of the state, the measured position of each action."""
        super().__init__(
            image_sizes=image_sizes,
            state_dim=state_dim,
            action_dim=action_dim,
            chunk_size=chunk_size,
            channels=channels,
        )
        self.max_delay_steps = max_delay_steps
        self.register_buffer("position_columns", torch.tensor(position_columns), persistent=False)
        self.input_dim = self.feature_dim + (1 + max_delay_steps) * action_dim + 2

    def encode(
        self, features: torch.Tensor, state: torch.Tensor, wait: Wait
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the head's inputs `[batch, input_dim]` and the newest executed row `[batch, action_dim]`.

        features: `[batch, feature_dim]` of `observe`. state: `[batch, state_dim]` in robot units. The rows go
        in newest first and relative to the newest; where there is none, the measured position stands for it.
        """
        measured = (state[:, self.position_columns] - self.action_mean) / self.action_std
        ages = torch.arange(self.max_delay_steps, device=state.device)
        newest_first = _pick(wait.rows, wait.executed[:, None] - 1 - ages)
        is_known = (ages < wait.executed[:, None])[..., None]
        rows = torch.where(is_known, newest_first, measured[:, None])
        newest = rows[:, 0]
        ticks = torch.stack([wait.delay, wait.executed], dim=1).to(features) / self.max_delay_steps
        return torch.cat([features, newest, (rows - newest[:, None]).flatten(1), ticks], dim=1), newest

    def answer(
        self, images: Sequence[torch.Tensor], state: torch.Tensor, batch: Sequence[ModelInput]
    ) -> torch.Tensor:
        """Return normalised actions `[batch, chunk_size, action_dim]`, beginning with the executed rows."""
        wait = Wait.of(batch, self.max_delay_steps, state)
        noise = np.stack([draw_noise(sample, self.chunk_shape) for sample in batch])
        return self.continue_rows(images, state, wait, torch.from_numpy(noise).to(state))

    def continue_rows(
        self, images: Sequence[torch.Tensor], state: torch.Tensor, wait: Wait, noise: torch.Tensor
    ) -> torch.Tensor:
        """Return the chunk of a wait. noise: `[batch, chunk_size, action_dim]`, for those who draw."""
        inputs, newest = self.encode(self.observe(images, state), state, wait)
        new_rows = newest[:, None] + self.predict_motion(inputs, noise)
        steps = torch.arange(self.chunk_shape[0], device=state.device)
        is_executed = (steps < wait.executed[:, None])[..., None]
        executed = _pick(wait.rows, steps.expand(state.shape[0], -1))
        return torch.where(is_executed, executed, _pick(new_rows, steps - wait.executed[:, None]))

    def predict_motion(self, inputs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Return the rows from the arrival on, less the newest one: `[batch, chunk_size, action_dim]`."""
        raise NotImplementedError


class PrefixChunkNetwork(PrefixNetwork):
    """Predicts the mean of the rows from the arrival on, by regression."""

    def __init__(
        self,
        *,
        image_sizes: Sequence[tuple[int, int]],
        state_dim: int,
        action_dim: int,
        chunk_size: int,
        channels: Sequence[int] = CHANNELS,
        hidden_units: int = HIDDEN_UNITS,
        max_delay_steps: int,
        position_columns: Sequence[int],
    ) -> None:
        super().__init__(
            image_sizes=image_sizes,
            state_dim=state_dim,
            action_dim=action_dim,
            chunk_size=chunk_size,
            channels=channels,
            max_delay_steps=max_delay_steps,
            position_columns=position_columns,
        )
        self.head = nn.Sequential(
            nn.Linear(self.input_dim, hidden_units),
            nn.SiLU(),
            nn.Linear(hidden_units, hidden_units),
            nn.SiLU(),
            nn.Linear(hidden_units, hidden_units),
            nn.SiLU(),
            nn.Linear(hidden_units, chunk_size * action_dim),
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the motion `[batch, chunk_size, action_dim]` for the inputs of `encode`."""
        motion: torch.Tensor = self.head(inputs).unflatten(1, self.chunk_shape)
        return motion

    def predict_motion(
        self,
        inputs: torch.Tensor,
        noise: torch.Tensor,  # noqa: ARG002  nothing is random here
    ) -> torch.Tensor:
        motion: torch.Tensor = self(inputs)
        return motion


class PrefixFlowNetwork(PrefixNetwork):
    """Draws the rows from the arrival on by flow matching, without guidance."""

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
        max_delay_steps: int,
        position_columns: Sequence[int],
        denoising_steps: int,
    ) -> None:
        super().__init__(
            image_sizes=image_sizes,
            state_dim=state_dim,
            action_dim=action_dim,
            chunk_size=chunk_size,
            channels=channels,
            max_delay_steps=max_delay_steps,
            position_columns=position_columns,
        )
        self.denoising_steps = denoising_steps
        self.head = make_flow_head(self.input_dim, self.chunk_shape, hidden_units)

    def forward(self, inputs: torch.Tensor, noisy: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Return the expected motion `[batch, chunk_size, action_dim]` behind a noisy one.

        inputs: of `encode`. noisy: `time * motion + (1 - time) * noise`. time: `[batch]`, 0 to 1.
        """
        motion: torch.Tensor = self.head(flow_inputs(inputs, noisy, time)).unflatten(1, self.chunk_shape)
        return motion

    def predict_motion(self, inputs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        motion = noise
        for step in range(self.denoising_steps):
            time = step / self.denoising_steps
            expected = self(inputs, motion, inputs.new_full((motion.shape[0],), time))
            motion = motion + (expected - motion) / (1.0 - time) / self.denoising_steps
        return motion


def _pick(rows: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Return `rows[:, indices]` of `[batch, n, dim]` with indices `[batch, m]`, clamped to the rows."""
    clamped = indices.clamp(0, rows.shape[1] - 1)
    return rows.gather(1, clamped[..., None].expand(-1, -1, rows.shape[2]))
