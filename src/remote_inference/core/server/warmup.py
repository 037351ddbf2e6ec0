# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Proves before admission that a policy answers, and computes how many robots its speed allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

import numpy as np

from remote_inference.core.exchange import SessionOffer
from remote_inference.core.policy import (
    Float32Array,
    Policy,
    PolicyError,
    PolicySpec,
    Processors,
    ServingMode,
    find_task_problem,
    predict_all,
)
from remote_inference.core.server.batching import batches, largest_batch, require_batchable
from remote_inference.core.server.manifest.manifest import Manifest
from remote_inference.core.server.probe import (
    choose_serving_mode,
    find_serving_mode,
    require_batches_to_agree,
    require_chunk,
)
from remote_inference.core.server.requests.preparation import Decoder

TIMED_INFERENCES = 5


class Rehearsal:
    """Requests of the server's own, served like robots': decoded, prepared, answered and checked."""

    def __init__(
        self, policy: Policy, decoder: Decoder, requests: Sequence[bytes], offer: SessionOffer
    ) -> None:
        """Take serialized observations, and the offer of a robot that could have sent them."""
        self._policy = policy
        self._decoder = decoder
        self._requests = requests
        self._offer = offer

    def run(self, batch_size: int = 1) -> list[Float32Array]:
        """Serve so many of the requests, in turn, in one call of the policy; return the robot-space chunks.

        Raises what decoder, processors and policy raise, and PolicyError for an invalid chunk.
        """
        spec = self._policy.spec
        try:
            prepared = [self._prepare(data) for data in islice(cycle(self._requests), batch_size)]
            chunks = predict_all(self._policy, [model_input for _, model_input in prepared])
            answers = []
            for (processors, _), chunk_model in zip(prepared, chunks, strict=True):
                answers.append(processors.post(np.array(chunk_model)))  # which may work in place
                require_chunk(spec, chunk_model, answers[-1])
            return answers
        finally:
            if spec.serving_mode is ServingMode.EXCLUSIVE:
                self._policy.reset()

    def _prepare(self, data: bytes) -> tuple[Processors, Any]:
        processors = self._policy.make_processors()
        _, message = self._decoder.request(data)
        return processors, processors.pre(self._decoder.observation(message, self._offer))


@dataclass(frozen=True)
class Readiness:
    """What was found while a policy was prepared."""

    request_s: float  # time of one request
    warnings: tuple[str, ...] = ()  # what its author or the manifest's should mend


def make_ready(
    policy: Policy,
    rehearsal: Rehearsal,
    manifest: Manifest,
    clock_ns: Callable[[], int],
    others: Sequence[Rehearsal] = (),
) -> Readiness:
    """Prepare a loaded policy for robots.

    The policy is warmed up, its serving mode is found and set, and its batches are compared. others: what to
    warm up besides, for example other image sizes. Raises PolicyError when it cannot be served as the
    manifest says.
    """
    for other in others:
        warm_up(policy, other, manifest.warmup_inferences, clock_ns)
    request_s = warm_up(policy, rehearsal, manifest.warmup_inferences, clock_ns)
    require_batchable(manifest, policy.spec)
    probe = find_serving_mode(policy, manifest.instruct(manifest.default_task or policy.spec.sample_task))
    mode, warnings = choose_serving_mode(manifest, policy.spec, probe)
    if mode is ServingMode.EXCLUSIVE and (replicas := manifest.model.replicas):
        reason = "; ".join(warnings) or "serving_mode is exclusive"
        raise PolicyError(f"model.replicas: found {', '.join(replicas)}, expected none: {reason}")
    policy.spec = replace(policy.spec, serving_mode=mode)
    if (batch := largest_batch(manifest, policy.spec)) > 1:
        request_s = warm_up(policy, rehearsal, manifest.warmup_inferences, clock_ns, batch)
        require_batches_to_agree(policy, batch, manifest)
    if find_task_problem(policy.spec, manifest.default_task):
        expected = "expected it unless every robot names a task: those without are refused"
        reads = f"policy {policy.spec.name} reads the task"
        warnings = (*warnings, f"default_task: found none, but {reads}; {expected}")
    return Readiness(request_s, warnings)


def warm_up(
    policy: Policy, rehearsal: Rehearsal, inferences: int, clock_ns: Callable[[], int], batch_size: int = 1
) -> float:
    """Run `inferences` untimed rehearsals and some timed ones; return the time of one request [s].

    The time is the median, divided by the batch size. Raises PolicyError when the policy cannot answer.
    """
    try:
        for _ in range(inferences):
            rehearsal.run(batch_size)
        times_ns = [clock_ns()]
        for _ in range(TIMED_INFERENCES):
            rehearsal.run(batch_size)
            times_ns.append(clock_ns())
    except BaseException as error:  # also what a library in Rust, or `sys.exit`, ends a thread with
        if isinstance(error, KeyboardInterrupt):
            raise
        batch = f" with a batch of {batch_size}" if batch_size > 1 else ""
        raise PolicyError(
            f"warm-up of {policy.spec.name}{batch} failed: {type(error).__name__}: {error}"
        ) from error
    return float(np.median(np.diff(times_ns))) / batch_size / 1e9


def capacity(request_s: float, request_rate_hz: float, horizon: int, period_s: float, rtt_s: float) -> int:
    """Return how many robots one worker serves: `min(0.8 / (r t), (H dt / 2 - rtt) / t)`.

    The first term keeps a fifth of the worker free, the second answers each robot within half its chunk.
    """
    by_load = 0.8 / (request_rate_hz * request_s)
    by_deadline = (horizon * period_s / 2 - rtt_s) / request_s
    return max(0, math.floor(min(by_load, by_deadline)))


@dataclass(frozen=True)
class Speed:
    """What the time of one request means for robots that run the policy as it was trained."""

    request_s: float
    request_rate_hz: float  # of one robot, which asks when half a chunk is left
    robots: int  # that one worker serves


def find_speed(spec: PolicySpec, request_s: float) -> Speed:
    """Return how many robots a policy serves that takes `request_s` for a request, without a network."""
    period_s = 1.0 / spec.trained_fps
    rate_hz = 2.0 / (spec.chunk_size * period_s)
    return Speed(request_s, rate_hz, capacity(request_s, rate_hz, spec.chunk_size, period_s, rtt_s=0.0))


def find_false_promises(manifest: Manifest, spec: PolicySpec, robots: int) -> list[str]:
    """Return the manifest's promises that the policy cannot keep. robots: the number its speed allows."""
    found = []
    if manifest.max_sessions > 1 and spec.serving_mode is ServingMode.EXCLUSIVE:
        found.append(f"max_sessions is {manifest.max_sessions}, but an exclusive policy serves one robot")
    elif manifest.max_sessions > robots:
        found.append(f"max_sessions is {manifest.max_sessions}, but the policy's speed allows {robots}")
    if batches(manifest) and manifest.scheduler_options.most > spec.max_batch:
        most = manifest.scheduler_options.most
        found.append(f"max_batch is {most}, but the policy takes at most {spec.max_batch}")
    return found
