# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Proof, before anyone is admitted, that a policy answers; and how many robots its speed allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from remote_inference.core.policy import (
    Float32Array,
    Policy,
    PolicyError,
    PolicyObservation,
    PolicySpec,
    ServingMode,
    find_chunk_problem,
)

PROBE_STEPS = 3  # requests of each fake session
PROBE_TOLERANCE = 1e-4  # absolute, model space; batches of other sizes round differently


def rehearse(policy: Policy, task: str) -> None:
    """Serve a dummy observation of the training shapes as a robot's.

    A policy that continues prefixes gets one: guidance is the slow path, and starts cold. An exclusive policy
    forgets the episode, which the dummy does not belong to. Raises what processors and policy raise, and
    PolicyError when the chunk is none.
    """
    spec = policy.spec
    observation = _observe(spec, task, np.zeros(len(spec.state_names), np.float32), brightness=0)
    if spec.supports_rtc:
        prefix = np.zeros((spec.chunk_size, spec.action_dim), np.float32)
        observation = replace(observation, inference_delay_steps=1, prefix_model=prefix, prefix_robot=prefix)
    try:
        processors = policy.make_processors()
        (chunk_model,) = policy.predict([processors.pre(observation)])
        if problem := find_chunk_problem(spec, chunk_model, processors.post(chunk_model)):
            raise PolicyError(problem)
    finally:
        if spec.serving_mode is ServingMode.EXCLUSIVE:
            policy.reset()


def warm_up(policy: Policy, inferences: int, task: str, clock_ns: Callable[[], int]) -> float:
    """Rehearse; return the last one's duration [s].

    Raises PolicyError when the policy has no working chunk call, whatever its name promises.
    """
    duration_s = math.nan
    for _ in range(inferences):
        begin_ns = clock_ns()
        try:
            rehearse(policy, task)
        except Exception as error:
            raise PolicyError(
                f"warm-up of {policy.spec.name} failed: {type(error).__name__}: {error}"
            ) from error
        duration_s = (clock_ns() - begin_ns) / 1e9
    return duration_s


def find_serving_mode(policy: Policy, task: str) -> ServingMode:
    """Find by trial whether sessions may share a policy, whatever its name or author says.

    Two fake sessions with states of their own are served one after the other, then request by request in
    turn. A policy that remembers (the diffusion family's observation queues) answers differently the second
    time. So does one that draws random numbers: it is served exclusively, too.
    """
    ramp = np.linspace(-0.5, 0.5, len(policy.spec.state_names), dtype=np.float32)
    states = [ramp, -ramp]
    turns = [(who, step) for step in range(PROBE_STEPS) for who in (0, 1)]
    apart = _answers(policy, sorted(turns), states, task)
    in_turn = _answers(policy, turns, states, task)
    same = all(np.allclose(apart[turn], in_turn[turn], rtol=0.0, atol=PROBE_TOLERANCE) for turn in turns)
    return ServingMode.SHARED if same else ServingMode.EXCLUSIVE


def _answers(
    policy: Policy, turns: Sequence[tuple[int, int]], states: Sequence[Float32Array], task: str
) -> dict[tuple[int, int], Float32Array]:
    """Serve (session, step) in this order from a fresh episode; return the robot-space chunks."""
    policy.reset()
    processors = [policy.make_processors() for _ in states]
    answers = {}
    for who, step in turns:
        observation = _observe(policy.spec, task, states[who] * (1 + step), brightness=40 * (1 + who + step))
        (chunk_model,) = policy.predict([processors[who].pre(observation)])
        answers[who, step] = processors[who].post(chunk_model)
    policy.reset()
    return answers


def _observe(spec: PolicySpec, task: str, state: Float32Array, brightness: int) -> PolicyObservation:
    """Return an observation of the training shapes."""
    return PolicyObservation(
        state=state,
        images={name: np.full(shape, brightness, np.uint8) for name, shape in spec.image_shapes.items()},
        task=task,
    )


def capacity(inference_s: float, request_rate_hz: float, horizon: int, period_s: float, rtt_s: float) -> int:
    """Return how many robots one worker serves: `min(0.8 / (r t), (H dt / 2 - rtt) / t)`.

    The first term keeps a fifth of the worker free, the second answers each robot within half its chunk.
    """
    by_load = 0.8 / (request_rate_hz * inference_s)
    by_deadline = (horizon * period_s / 2 - rtt_s) / inference_s
    return max(0, math.floor(min(by_load, by_deadline)))
