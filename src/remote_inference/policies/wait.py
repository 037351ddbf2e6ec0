# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a policy that was trained with latency is told of the time until its answers arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.policy import Float32Array
from remote_inference.policies.model_input import ModelInput


@dataclass(frozen=True)
class WaitArrays:
    """What happens between the captures of a batch and their answers, in numpy.

    rows: `[batch, max_delay_steps, action_dim]` in model space, in the order of execution; those from
    `executed` on do not matter. executed, delay: int64 `[batch]` control ticks, `executed <= delay`.
    """

    rows: Float32Array
    executed: NDArray[np.int64]
    delay: NDArray[np.int64]


def wait_arrays(batch: Sequence[ModelInput], max_delay_steps: int) -> WaitArrays:
    """Return the wait of each input; a longer delay counts as the longest."""
    delays = [min(sample.delay_steps, max_delay_steps) for sample in batch]
    executed = [min(delay, len(sample.prefix)) for delay, sample in zip(delays, batch, strict=True)]
    rows = np.zeros((len(batch), max_delay_steps, batch[0].prefix.shape[1]), np.float32)
    for row, count, sample in zip(rows, executed, batch, strict=True):
        row[:count] = sample.prefix[:count]
    return WaitArrays(rows, np.array(executed, np.int64), np.array(delays, np.int64))
