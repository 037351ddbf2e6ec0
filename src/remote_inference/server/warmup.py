# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Proves before admission that a policy answers, and computes how many robots its speed allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

import numpy as np

from remote_inference.base.exchange import SessionOffer
from remote_inference.base.fingerprint import make_seed
from remote_inference.base.policy import (
    Float32Array,
    PastStep,
    Policy,
    PolicyError,
    PolicyObservation,
    PolicySpec,
    Processors,
    ServingMode,
    find_chunk_problem,
    find_task_problem,
    predict_all,
)
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.requests.job import Decoder
from remote_inference.server.schedulers import SCHEDULERS, Scheduler


def make_scheduler(manifest: Manifest, policy_max_batch: int) -> Scheduler:
    """Return the scheduler that a manifest names. policy_max_batch: the most one call may take."""
    options = manifest.scheduler_options
    return SCHEDULERS.get(manifest.scheduler).make(options, min(options.most, policy_max_batch))


def batches(manifest: Manifest) -> bool:
    """Return whether the manifest's scheduler may put several requests into one call of the policy."""
    return bool(manifest.scheduler_options.most > 1)


def largest_batch(manifest: Manifest, spec: PolicySpec) -> int:
    """Return the most requests that one call of the policy may get. spec: as classified."""
    if not batches(manifest) or spec.serving_mode is ServingMode.EXCLUSIVE:
        return 1
    most: int = manifest.scheduler_options.most
    return min(most, spec.max_batch, manifest.max_sessions)


PROBE_STEPS = 3  # requests of each fake session
# Largest difference of two answers that count as equal, in robot space: absolute in the action's unit, and
# relative to the action's largest value in the chunk.
ABSOLUTE_TOLERANCE = 1e-4
RELATIVE_TOLERANCE = 1e-3
BATCH_TOLERANCE = 2e-2  # relative, between batches of different sizes: bfloat16 rounds to 4e-3

_Answers = Mapping[tuple[int, int], Float32Array]  # robot-space chunks by (session, step)


@dataclass(frozen=True)
class Probe:
    """How many sessions may use a policy, as its answers show."""

    mode: ServingMode
    difference: str = ""  # of answers that a shared policy would give equally, and by how much
    remedy: str = ""  # what the policy's author can do about it


def find_serving_mode(policy: Policy, task: str) -> Probe:
    """Return how many sessions may share a policy, found by trial rather than from its name or author.

    Two fake sessions with different states are served one after the other, then in turn, request by request.
    A policy that remembers (the diffusion family's observation queues) answers differently the second time. A
    policy whose random numbers do not come from the observation's seed does so also when the first trial is
    repeated. Raises PolicyError for an invalid chunk.
    """
    states = _states(policy.spec, 2)
    sequence = [(who, step) for step in range(PROBE_STEPS) for who in (0, 1)]
    apart = _answers(policy, sorted(sequence), states, task)
    in_turn = _answers(policy, sequence, states, task)
    if not (difference := _describe_difference(policy.spec, in_turn, apart)):
        return Probe(ServingMode.SHARED)
    again = _answers(policy, sorted(sequence), states, task)
    if random := _describe_difference(policy.spec, again, apart):
        return Probe(
            ServingMode.EXCLUSIVE,
            f"answers to equal requests differ, by up to {random}",
            "draw random numbers from the observation's seed, and forget the episode in reset",
        )
    return Probe(
        ServingMode.EXCLUSIVE,
        f"answers depend on earlier requests, by up to {difference}",
        "keep what an episode needs in the session's processors",
    )


def choose_serving_mode(
    manifest: Manifest, spec: PolicySpec, probe: Probe
) -> tuple[ServingMode, tuple[str, ...]]:
    """Return the mode to serve a policy in, and warnings. spec: as its back end declares it.

    Raises PolicyError when the manifest asserts what the back end rules out.
    """
    if spec.serving_mode is ServingMode.EXCLUSIVE and manifest.serving_mode == "shared":
        found = f"serving_mode: found 'shared', but the back end of {spec.name} declares it exclusive"
        raise PolicyError(f"{found}, expected 'auto' or 'exclusive'")
    if manifest.serving_mode == "exclusive" or spec.serving_mode is ServingMode.EXCLUSIVE:
        return ServingMode.EXCLUSIVE, ()
    if probe.mode is ServingMode.SHARED:
        return ServingMode.SHARED, ()
    if manifest.serving_mode == "shared":
        return ServingMode.SHARED, (f"serving_mode is shared, but {probe.difference}; {probe.remedy}",)
    warning = f"{spec.name} is served to one robot at a time: {probe.difference}; {probe.remedy}"
    return ServingMode.EXCLUSIVE, (warning,)


def require_batches_to_agree(policy: Policy, batch_size: int, manifest: Manifest) -> None:
    """Serve different requests one by one and in one call. Raises PolicyError when the answers differ."""
    task = manifest.instruct(manifest.default_task or policy.spec.sample_task)
    processors = [policy.make_processors() for _ in range(batch_size)]
    inputs = [
        processors[who].pre(_observe(policy.spec, task, state, brightness=who % 256))
        for who, state in enumerate(_states(policy.spec, batch_size))
    ]
    alone = [_answer(policy, [pair], [one])[0] for pair, one in zip(processors, inputs, strict=True)]
    for found, expected in zip(_answer(policy, processors, inputs), alone, strict=True):
        if not _agree(found, expected, BATCH_TOLERANCE):
            difference = float(np.abs(found - expected).max())
            raise PolicyError(
                f"scheduler: found {manifest.scheduler!r}, but {policy.spec.name} answers differently in a "
                f"batch of {batch_size} than alone, by up to {difference:.3g}"
            )


def _answer(policy: Policy, processors: Sequence[Processors], inputs: Sequence[Any]) -> list[Float32Array]:
    """Return the robot-space chunks of inputs in one call. Raises PolicyError for an invalid one."""
    answers = []
    for pair, chunk_model in zip(processors, predict_all(policy, inputs), strict=True):
        answers.append(pair.post(np.array(chunk_model)))  # which may work in place
        if problem := find_chunk_problem(policy.spec, chunk_model, answers[-1]):
            raise PolicyError(problem)
    return answers


def _states(spec: PolicySpec, count: int) -> list[Float32Array]:
    """Return `count` states `[state_dim]`, no two of them equal."""
    ramp = np.linspace(-0.5, 0.5, len(spec.state_names), dtype=np.float32)
    return [np.float32(scale) * (ramp + 0.1) for scale in np.linspace(1.0, -1.0, count)]


def _answers(
    policy: Policy, sequence: Sequence[tuple[int, int]], states: Sequence[Float32Array], task: str
) -> _Answers:
    """Serve (session, step) in this order from a fresh episode; return the robot-space chunks."""
    policy.reset()
    processors = [policy.make_processors() for _ in states]
    answers = {}
    for who, step in sequence:
        observation = _observe(policy.spec, task, states[who] * (1 + step), brightness=40 * (1 + who + step))
        (answers[who, step],) = _answer(policy, [processors[who]], [processors[who].pre(observation)])
    policy.reset()
    return answers


def _observe(spec: PolicySpec, task: str, state: Float32Array, brightness: int) -> PolicyObservation:
    """Return an observation of the training shapes, no two of its steps equal, with a seed of its content."""
    *past, present = [
        PastStep(
            state * np.float32(1.0 - 0.05 * before),
            {
                name: np.full(shape, (brightness - before) % 256, np.uint8)
                for name, shape in spec.image_shapes.items()
            },
        )
        for before in reversed(range(spec.observation_steps))
    ]
    seed = make_seed([state, bytes([brightness]), task.encode()])
    return PolicyObservation(present.state, present.images, task, seed=seed, past=past)


def _describe_difference(spec: PolicySpec, found: _Answers, expected: _Answers) -> str:
    """Return the largest difference with its action's name; empty when all answers agree."""
    if all(_agree(found[key], expected[key], RELATIVE_TOLERANCE) for key in expected):
        return ""
    differences = np.stack([np.abs(found[key] - expected[key]).max(axis=0) for key in expected])
    _, action = np.unravel_index(differences.argmax(), differences.shape)
    return f"{differences.max():.3g} in {spec.action_names[action]}"


def _agree(found: Float32Array, expected: Float32Array, relative: float) -> bool:
    """Compare robot-space chunks `[chunk_size, action_dim]`, each action by its own magnitude."""
    tolerance = ABSOLUTE_TOLERANCE + relative * np.abs(expected).max(axis=0)
    return bool((np.abs(found - expected) <= tolerance).all())


TIMED_INFERENCES = 5


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Test requests of the server itself, served like robots': decoded, prepared, answered and checked.

    requests: serialized observations of a robot with this offer.
    """

    policy: Policy
    decoder: Decoder
    requests: Sequence[bytes]
    offer: SessionOffer

    def run(self, batch_size: int = 1) -> list[Float32Array]:
        """Serve `batch_size` of the requests in one call of the policy; return the robot-space chunks.

        Raises what decoder, processors and policy raise, and PolicyError for an invalid chunk.
        """
        try:
            prepared = [self._prepare(data) for data in islice(cycle(self.requests), batch_size)]
            processors, inputs = zip(*prepared, strict=True)
            return _answer(self.policy, processors, inputs)
        finally:
            if self.policy.spec.serving_mode is ServingMode.EXCLUSIVE:
                self.policy.reset()

    def _prepare(self, data: bytes) -> tuple[Processors, Any]:
        processors = self.policy.make_processors()
        _, message = self.decoder.request(data)
        return processors, processors.pre(self.decoder.observation(message, self.offer))


@dataclass(frozen=True)
class Readiness:
    """What was found while a policy was prepared."""

    request_s: float  # time of one request
    warnings: tuple[str, ...] = ()  # for its author, or the manifest's


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
    if batches(manifest) and policy.spec.max_batch < 2:
        name = policy.spec.name
        raise PolicyError(f"scheduler: found {manifest.scheduler!r}, but {name} takes one request at a time")
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


def find_policy_notes(spec: PolicySpec) -> list[str]:
    """Return what people should know of a policy before robots come: what its files do, and do not say."""
    notes = list(spec.notes)
    if unknown := spec.without_unit:
        notes.append(f"the policy does not say units of {', '.join(unknown)}: a robot's are taken")
    return notes


def find_unkept_promises(manifest: Manifest, spec: PolicySpec, robots: int) -> list[str]:
    """Return the manifest's promises that the policy cannot keep. robots: the number its speed allows."""
    found = []
    if manifest.max_sessions > 1 and spec.serving_mode is ServingMode.EXCLUSIVE:
        found.append(f"max_sessions is {manifest.max_sessions}, but an exclusive policy serves one robot")
    elif manifest.max_sessions > robots:
        found.append(f"max_sessions is {manifest.max_sessions}, but the policy's speed allows {robots}")
    if batches(manifest) and (most := manifest.scheduler_options.most) > spec.max_batch:
        found.append(f"max_batch is {most}, but the policy takes at most {spec.max_batch}")
    return found
