# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Real-time chunking: the weights that hold a flow policy to the chunk that is being executed.

The method is from Black et al. 2025, Real-Time Execution of Action Chunking Flow Policies, arXiv:2506.07339.
The ramp of the weights is linear, as by default in LeRobot; in the paper it is exponential. Flow time runs
from 0 (noise) to 1 (actions).
"""

from __future__ import annotations

import numpy as np

from remote_inference.core.policy import Float32Array


def prefix_weights(
    prefix_rows: int, delay_steps: int, execution_horizon: int, chunk_size: int
) -> Float32Array:
    """Return the weight `[chunk_size]` of each row of the prefix in the chunk that continues it.

    The weight is 1 for the rows that will be executed before the chunk arrives, then falls linearly to 0 at
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
