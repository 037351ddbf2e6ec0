# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The probe tells policies that robots may share from those that remember or draw, and checks batches."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from remote_inference.base.policy import PolicyError, PolicyObservation, ServingMode
from remote_inference.server.manifest.manifest import Manifest, ModelSource
from remote_inference.server.warmup import (
    PROBE_STEPS,
    Probe,
    choose_serving_mode,
    find_serving_mode,
    require_batches_to_agree,
)
from support.builders import CAMERA, CHUNK_SIZE, ShiftProcessors, SteadyPolicy, make_spec


def make_manifest(**changes: Any) -> Manifest:
    return Manifest(model=ModelSource(backend="hold", path="x"), **changes)


class RememberingPolicy(SteadyPolicy):
    """Answers with the sum of all states since the last reset, like a policy with an observation queue."""

    def __init__(self) -> None:
        super().__init__()
        self._sum = np.zeros(2, np.float32)
        self.answer = self._add

    def _add(self, batch: Sequence[Any]) -> list[np.ndarray]:
        self._sum = self._sum + batch[0]
        return [np.tile(self._sum, (CHUNK_SIZE, 1))]

    def reset(self) -> None:
        self._sum = np.zeros(2, np.float32)


def test_a_policy_that_remembers_nothing_may_be_shared():
    """The processors' memory is a session's own and does not count."""
    assert find_serving_mode(SteadyPolicy(), "wave").mode is ServingMode.SHARED


def test_a_policy_that_remembers_is_found_out_and_served_exclusively():
    assert find_serving_mode(RememberingPolicy(), "wave").mode is ServingMode.EXCLUSIVE


class StepsProcessors(ShiftProcessors):
    """Passes on the states of all steps, and notes the brightness of all images."""

    def __init__(self, seen: list[list[int]]) -> None:
        super().__init__()
        self._seen = seen

    def pre(self, observation: PolicyObservation) -> np.ndarray:
        super().pre(observation)
        self._seen.append([int(image.mean()) for image in observation.image_steps(CAMERA)])
        return observation.states


@pytest.mark.parametrize("observation_steps", [1, 3])
def test_the_probe_shows_a_policy_as_many_different_steps_as_it_sees(observation_steps: int):
    policy, seen = SteadyPolicy(observation_steps=observation_steps, max_batch=4), []
    policy.make_processors = lambda: StepsProcessors(seen)  # type: ignore[method-assign]
    states: list[np.ndarray] = []

    def answer(batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        states.extend(batch)
        return [np.tile(steps.mean(axis=0), (CHUNK_SIZE, 1)).astype(np.float32) for steps in batch]

    policy.answer = answer
    assert find_serving_mode(policy, "wave").mode is ServingMode.SHARED
    require_batches_to_agree(policy, 4, make_manifest())
    assert {steps.shape for steps in states} == {(observation_steps, 2)}
    for steps, brightness in zip(states, seen, strict=False):
        assert len({tuple(row) for row in steps}) == len(set(brightness)) == observation_steps


class PlainProcessors(ShiftProcessors):
    """Robot space is model space."""

    def post(self, chunk_model: np.ndarray) -> np.ndarray:
        return chunk_model


class SeedProcessors(PlainProcessors):
    """The policy gets the seed alone."""

    def pre(self, observation: PolicyObservation) -> Any:
        return observation.seed


class SamplingPolicy(SteadyPolicy):
    """Draws its chunks from each request's seed."""

    def __init__(self, **spec_changes: Any) -> None:
        super().__init__(**spec_changes)
        self.make_processors = SeedProcessors  # type: ignore[method-assign, assignment]
        self.answer = lambda seeds: [draw(np.random.default_rng(seed)) for seed in seeds]


class GlobalPolicy(SamplingPolicy):
    """Draws its chunks from the global generator."""

    def __init__(self, **spec_changes: Any) -> None:
        super().__init__(**spec_changes)
        generator = np.random.default_rng(0)
        self.answer = lambda seeds: [draw(generator) for _ in seeds]


def draw(generator: np.random.Generator) -> np.ndarray:
    return generator.normal(size=(CHUNK_SIZE, 2)).astype(np.float32)


def test_a_policy_that_samples_from_the_seed_is_shared_and_batched():
    policy = SamplingPolicy(max_batch=4)
    assert find_serving_mode(policy, "wave") == Probe(ServingMode.SHARED)
    require_batches_to_agree(policy, 4, make_manifest(scheduler="micro_batch"))


def test_the_probe_s_requests_have_seeds_of_their_own():
    policy, seen = SamplingPolicy(), set()
    sample = policy.answer
    policy.answer = lambda seeds: (seen.update(seeds), sample(seeds))[1]
    find_serving_mode(policy, "wave")
    assert len(seen) == 2 * PROBE_STEPS
    find_serving_mode(policy, "wave")
    assert len(seen) == 2 * PROBE_STEPS


def test_a_policy_with_randomness_of_its_own_is_exclusive_and_the_difference_is_said():
    probe = find_serving_mode(GlobalPolicy(), "wave")
    assert probe.mode is ServingMode.EXCLUSIVE
    assert re.fullmatch(
        r"answers to equal requests differ, by up to [0-9.]+ in (shoulder|elbow)", probe.difference
    )
    assert "from the observation's seed" in probe.remedy


def test_a_policy_that_remembers_is_told_apart_from_one_that_draws():
    probe = find_serving_mode(RememberingPolicy(), "wave")
    assert probe.difference.startswith("answers depend on earlier requests, by up to ")
    assert "processors" in probe.remedy


REMEMBERS = Probe(ServingMode.EXCLUSIVE, "answers depend on earlier requests, by up to 2 in elbow", "keep it")


@pytest.mark.parametrize(
    ("asserted", "declared", "probe", "mode", "warning"),
    [
        ("auto", "shared", Probe(ServingMode.SHARED), "shared", ""),
        ("auto", "shared", REMEMBERS, "exclusive", "waver is served to one robot at a time: "),
        ("auto", "exclusive", REMEMBERS, "exclusive", ""),
        ("shared", "shared", Probe(ServingMode.SHARED), "shared", ""),
        ("shared", "shared", REMEMBERS, "shared", "serving_mode is shared, but "),
        ("exclusive", "shared", Probe(ServingMode.SHARED), "exclusive", ""),
        ("exclusive", "shared", REMEMBERS, "exclusive", ""),
        ("exclusive", "exclusive", REMEMBERS, "exclusive", ""),
    ],
)
def test_an_assertion_wins_over_the_probe_and_a_contradiction_is_said(
    asserted: str, declared: str, probe: Probe, mode: str, warning: str
):
    spec = make_spec(serving_mode=ServingMode(declared))
    found, warnings = choose_serving_mode(make_manifest(serving_mode=asserted), spec, probe)
    assert found.value == mode
    assert list(warnings) == ([f"{warning}{probe.difference}; {probe.remedy}"] if warning else [])


def test_what_the_back_end_rules_out_cannot_be_asserted():
    spec = make_spec(serving_mode=ServingMode.EXCLUSIVE)
    with pytest.raises(PolicyError, match="serving_mode: found 'shared', but the back end of waver declares"):
        choose_serving_mode(make_manifest(serving_mode="shared"), spec, Probe(ServingMode.SHARED))


def test_the_probe_leaves_nothing_behind():
    policy = RememberingPolicy()
    find_serving_mode(policy, "wave")
    assert not policy._sum.any()


def test_a_policy_whose_probe_is_no_chunk_is_refused_and_not_called_exclusive():
    policy = SteadyPolicy()
    policy.answer = lambda batch: [np.full((CHUNK_SIZE, 2), np.nan, np.float32) for _ in batch]
    with pytest.raises(PolicyError, match="non-finite"):
        find_serving_mode(policy, "wave")


class RoundingPolicy(SteadyPolicy):
    """Answers in units up to 100, a little differently each time, as kernels on a GPU do."""

    def __init__(self, relative: float) -> None:
        super().__init__(max_batch=8)
        self._errors = itertools.cycle([0.0, relative, -relative])
        self.answer = lambda batch: [
            np.tile(100.0 * (1.0 + state) * np.float32(1.0 + next(self._errors)), (CHUNK_SIZE, 1))
            for state in batch
        ]


@pytest.mark.parametrize(
    ("relative", "mode"),
    [(1e-4, ServingMode.SHARED), (1e-2, ServingMode.EXCLUSIVE)],
    ids=["same", "other"],
)
def test_answers_are_compared_by_their_magnitude(relative: float, mode: ServingMode):
    assert find_serving_mode(RoundingPolicy(relative), "wave").mode is mode


def test_each_action_is_compared_with_its_own_magnitude():
    """Shoulder in rad beside a gripper in per cent."""
    policy, calls = SteadyPolicy(), itertools.count()
    policy.make_processors = PlainProcessors  # type: ignore[method-assign, assignment]
    policy.answer = lambda batch: [np.tile(np.float32([0.01 * next(calls), 100.0]), (CHUNK_SIZE, 1))]
    assert find_serving_mode(policy, "wave").mode is ServingMode.EXCLUSIVE


def test_batches_that_answer_as_single_requests_do_agree():
    require_batches_to_agree(SteadyPolicy(max_batch=4), 4, make_manifest(scheduler="micro_batch"))
    require_batches_to_agree(RoundingPolicy(4e-3), 8, make_manifest(scheduler="micro_batch"))


def test_a_policy_that_mixes_its_batch_up_is_refused():
    policy = SteadyPolicy(max_batch=4)
    healthy = policy.answer
    policy.answer = lambda batch: healthy(batch)[::-1]
    with pytest.raises(PolicyError, match="scheduler: found 'micro_batch', but waver answers differently"):
        require_batches_to_agree(policy, 4, make_manifest(scheduler="micro_batch"))
