# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Proof, before anyone is admitted, that a policy answers; and how many robots its speed allows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from remote_inference.core.policy import Policy, PolicyError, PolicyObservation, find_chunk_problem


def warm_up(policy: Policy, inferences: int, task: str, clock_ns: Callable[[], int]) -> float:
    """Serve dummy observations of the training shapes; return the last one's duration [s].

    Raises PolicyError when the policy has no working chunk call, whatever its name promises.
    """
    spec = policy.spec
    observation = PolicyObservation(
        state=np.zeros(len(spec.state_names), np.float32),
        images={name: np.zeros(shape, np.uint8) for name, shape in spec.image_shapes.items()},
        task=task,
    )
    duration_s = math.nan
    for _ in range(inferences):
        begin_ns = clock_ns()
        try:
            processors = policy.make_processors()
            (chunk_model,) = policy.predict([processors.pre(observation)])
            chunk_robot = processors.post(chunk_model)
            problem = find_chunk_problem(spec, chunk_model, chunk_robot)
        except Exception as error:
            raise PolicyError(f"warm-up of {spec.name} failed: {type(error).__name__}: {error}") from error
        if problem:
            raise PolicyError(f"warm-up of {spec.name} failed: {problem}")
        duration_s = (clock_ns() - begin_ns) / 1e9
    return duration_s


def capacity(inference_s: float, request_rate_hz: float, horizon: int, period_s: float, rtt_s: float) -> int:
    """Return how many robots one worker serves: `min(0.8 / (r t), (H dt / 2 - rtt) / t)`.

    The first term keeps a fifth of the worker free, the second answers each robot within half its chunk.
    """
    by_load = 0.8 / (request_rate_hz * inference_s)
    by_deadline = (horizon * period_s / 2 - rtt_s) / inference_s
    return max(0, math.floor(min(by_load, by_deadline)))
