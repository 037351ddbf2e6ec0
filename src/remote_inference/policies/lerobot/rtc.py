# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot's real-time chunking for a batch in which every request has its own prefix and delay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from lerobot.policies.rtc import RTCProcessor

from remote_inference.policies.lerobot.processors import LeRobotInput


class BatchRTC(RTCProcessor):  # type: ignore[misc]  # LeRobot is not there where types are checked
    """LeRobot's guidance, in which each request of a batch has its own prefix and delay.

    LeRobot takes prefixes of one length and a single delay, from which it makes the weight of each row of a
    chunk. It treats all rows alike but for these weights, so a batch goes through it as one long chunk: the
    rows of all requests, one request after the other, and their weights.
    """

    def guide(self, samples: Sequence[LeRobotInput], noise: torch.Tensor) -> dict[str, Any]:
        """Return the arguments of `predict_action_chunk` with which each sample continues its prefix.

        noise: of the samples, `[batch, rows, columns]`. A sample without a prefix has weights of 0.
        """
        held = torch.zeros_like(noise)
        weights = []
        for chunk, sample in zip(held, samples, strict=True):
            rows = 0 if sample.prefix is None else len(sample.prefix)
            if sample.prefix is not None:
                chunk[:rows, : sample.prefix.shape[1]] = sample.prefix
            end = min(self.rtc_config.execution_horizon, rows)
            weights.append(super().get_prefix_weights(sample.delay_steps, end, len(chunk)))
        return {"prev_chunk_left_over": held, "inference_delay": torch.cat(weights).to(noise.device)}

    def denoise_step(
        self,
        x_t: torch.Tensor,
        *,
        prev_chunk_left_over: torch.Tensor | None,
        inference_delay: torch.Tensor | None,
        time: float,
        original_denoise_step_partial: Callable[[torch.Tensor], torch.Tensor],
        execution_horizon: int | None = None,
    ) -> torch.Tensor:
        """Return the guided velocity of a batch, shaped as `x_t` `[batch, rows, columns]`.

        prev_chunk_left_over, inference_delay: as `guide` returns them, or None for an unguided velocity.
        """
        if prev_chunk_left_over is None:
            return original_denoise_step_partial(x_t)

        def denoise(joined: torch.Tensor) -> torch.Tensor:
            return _join(original_denoise_step_partial(joined.reshape(x_t.shape)))

        guided: torch.Tensor = super().denoise_step(
            _join(x_t), _join(prev_chunk_left_over), inference_delay, time, denoise, execution_horizon
        )
        return guided.reshape(x_t.shape)

    def get_prefix_weights(self, start: torch.Tensor, end: int, total: int) -> torch.Tensor:  # noqa: ARG002
        """Return the weights `[total]` of `guide`: LeRobot hands on as `start` what it got as the delay."""
        return start


def install(network: Any) -> BatchRTC:
    """Let a network of LeRobot's use the guidance of batches; return it."""
    processor = BatchRTC(network.config.rtc_config)
    network.rtc_processor = network.model.rtc_processor = processor
    return processor


def _join(batch: torch.Tensor) -> torch.Tensor:
    """Return the chunks `[batch, rows, columns]` as one, `[1, batch * rows, columns]`."""
    return batch.flatten(0, 1)[None]
