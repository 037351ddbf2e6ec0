# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds by trial whether robots may share a policy, and whether its batches answer as single requests do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from remote_inference.core.policy import (
    Float32Array,
    PastStep,
    Policy,
    PolicyError,
    PolicyObservation,
    PolicySpec,
    ServingMode,
    find_chunk_problem,
    predict_all,
)
from remote_inference.core.seeds import make_seed
from remote_inference.core.server.manifest.manifest import Manifest

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
    turns = [(who, step) for step in range(PROBE_STEPS) for who in (0, 1)]
    apart = _answers(policy, sorted(turns), states, task)
    in_turn = _answers(policy, turns, states, task)
    if not (difference := _describe_difference(policy.spec, in_turn, apart)):
        return Probe(ServingMode.SHARED)
    again = _answers(policy, sorted(turns), states, task)
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
        raise PolicyError(
            f"serving_mode: found 'shared', but the back end of {spec.name} declares it exclusive, "
            "expected 'auto' or 'exclusive'"
        )
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
    alone = [rows for model_input in inputs for rows in predict_all(policy, [model_input])]
    together = predict_all(policy, inputs)
    for who, pair in enumerate(processors):
        expected, found = pair.post(alone[who]), pair.post(together[who])
        require_chunk(policy.spec, together[who], found)
        if not _agree(found, expected, BATCH_TOLERANCE):
            difference = float(np.abs(found - expected).max())
            raise PolicyError(
                f"scheduler: found {manifest.scheduler!r}, but {policy.spec.name} answers differently in a "
                f"batch of {batch_size} than alone, by up to {difference:.3g}"
            )


def require_chunk(spec: PolicySpec, chunk_model: Float32Array, chunk_robot: Float32Array) -> None:
    """Raise PolicyError that says what is wrong with a policy's answer, if anything is."""
    if problem := find_chunk_problem(spec, chunk_model, chunk_robot):
        raise PolicyError(problem)


def _states(spec: PolicySpec, count: int) -> list[Float32Array]:
    """Return `count` states `[state_dim]`, no two of them equal."""
    ramp = np.linspace(-0.5, 0.5, len(spec.state_names), dtype=np.float32)
    return [np.float32(scale) * (ramp + 0.1) for scale in np.linspace(1.0, -1.0, count)]


def _answers(
    policy: Policy, turns: Sequence[tuple[int, int]], states: Sequence[Float32Array], task: str
) -> _Answers:
    """Serve (session, step) in this order from a fresh episode; return the robot-space chunks."""
    policy.reset()
    processors = [policy.make_processors() for _ in states]
    answers = {}
    for who, step in turns:
        observation = _observe(policy.spec, task, states[who] * (1 + step), brightness=40 * (1 + who + step))
        (chunk_model,) = predict_all(policy, [processors[who].pre(observation)])
        answers[who, step] = processors[who].post(chunk_model)
        require_chunk(policy.spec, chunk_model, answers[who, step])
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
    if all(_agree(found[turn], expected[turn], RELATIVE_TOLERANCE) for turn in expected):
        return ""
    differences = np.stack([np.abs(found[turn] - expected[turn]).max(axis=0) for turn in expected])
    _, action = np.unravel_index(differences.argmax(), differences.shape)
    return f"{differences.max():.3g} in {spec.action_names[action]}"


def _agree(found: Float32Array, expected: Float32Array, relative: float) -> bool:
    """Compare robot-space chunks `[chunk_size, action_dim]`, each action by its own magnitude."""
    tolerance = ABSOLUTE_TOLERANCE + relative * np.abs(expected).max(axis=0)
    return bool((np.abs(found - expected) <= tolerance).all())
