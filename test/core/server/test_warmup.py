# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Warm-up refuses policies that cannot answer, and measures how many robots one worker can serve."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from builders import CHUNK_SIZE, JOINTS, SteadyPolicy

from remote_inference.core.policy import PolicyError, ServingMode
from remote_inference.core.server.warmup import capacity, find_serving_mode, warm_up


def frozen_clock() -> int:
    return 0


def test_a_working_policy_is_called_as_often_as_asked_and_the_last_call_is_timed():
    policy, calls = SteadyPolicy(), []
    healthy = policy.answer
    policy.answer = lambda batch: (calls.append(len(batch)), healthy(batch))[1]
    readings = iter([0, 5_000_000_000, 5_000_000_000, 5_040_000_000])
    assert warm_up(policy, 2, "wave", lambda: next(readings)) == pytest.approx(0.04)
    assert calls == [1, 1]


def test_it_is_asked_with_the_training_shapes_and_the_default_task():
    policy, seen = SteadyPolicy(), []
    make = policy.make_processors

    def recording_processors() -> Any:
        processors = make()
        pre = processors.pre
        processors.pre = lambda observation: (seen.append(observation), pre(observation))[1]
        return processors

    policy.make_processors = recording_processors  # type: ignore[method-assign]
    warm_up(policy, 1, "wave", frozen_clock)
    (observation,) = seen
    assert observation.state.shape == (2,)
    assert observation.state.dtype == np.float32
    assert {name: image.shape for name, image in observation.images.items()} == policy.spec.image_shapes
    assert observation.task == "wave"


def rows(*shape: int) -> Callable[[Sequence[Any]], Any]:
    return lambda batch: [np.zeros(shape, np.float32) for _ in batch]


def no_chunk_call(batch: Sequence[Any]) -> Any:
    raise NotImplementedError("predict_action_chunk")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (no_chunk_call, "predict_action_chunk"),
        (rows(2), "[2]"),
        (rows(1, 2), "[1, 2]"),
        (rows(CHUNK_SIZE, 1), f"[{CHUNK_SIZE}, 1]"),
        (lambda batch: [], ""),
        (lambda batch: [None], ""),
        (lambda batch: [[[0.0, 0.0]] * CHUNK_SIZE], ""),
        (lambda batch: [np.full((CHUNK_SIZE, 2), np.nan, np.float32)], "finite"),
    ],
    ids=["raises", "one action", "one row", "other dim", "nothing", "None", "lists", "NaN weights"],
)
def test_a_policy_that_cannot_answer_is_refused_by_name(answer: Any, words: str):
    policy = SteadyPolicy()
    policy.answer = answer
    if words == "":  # nothing that numpy could add a state to, so that the answer itself is judged
        processors = policy.make_processors()
        processors.post = lambda chunk: chunk  # type: ignore[method-assign]
        policy.make_processors = lambda: processors  # type: ignore[method-assign]
    with pytest.raises(PolicyError) as refusal:
        warm_up(policy, 1, "wave", frozen_clock)
    assert "waver" in str(refusal.value)
    assert words in str(refusal.value)


def test_a_policy_without_processors_is_refused():
    policy = SteadyPolicy()

    def broken() -> Any:
        raise FileNotFoundError("normalizer.safetensors")

    policy.make_processors = broken  # type: ignore[method-assign]
    with pytest.raises(PolicyError, match=r"normalizer\.safetensors"):
        warm_up(policy, 1, "wave", frozen_clock)


@pytest.mark.parametrize(
    ("inference_s", "rate_hz", "horizon", "rtt_s", "expected"),
    [
        (0.1, 1.0, 50, 0.0, 8),  # load: 0.8 / 0.1; deadline: 0.8333 / 0.1 = 8.3
        (0.1, 2.0, 50, 0.0, 4),
        (0.1, 0.1, 50, 0.0, 8),  # load allows 80, the deadline 8
        (0.1, 0.1, 50, 0.5, 3),
        (0.1, 1.0, 50, 2.0, 0),  # nobody can be answered in time: never negative
        (2.0, 1.0, 50, 0.0, 0),
    ],
)
def test_capacity_is_the_lesser_of_load_and_deadline(
    inference_s: float, rate_hz: float, horizon: int, rtt_s: float, expected: int
):
    assert capacity(inference_s, rate_hz, horizon, 1 / 30, rtt_s) == expected


def test_capacity_never_grows_with_inference_time_rate_or_round_trip():
    values = itertools.product((0.01, 0.05, 0.2), (0.5, 2.0), (0.0, 0.3))
    for inference_s, rate_hz, rtt_s in values:
        here = capacity(inference_s, rate_hz, 50, 1 / 30, rtt_s)
        assert capacity(2 * inference_s, rate_hz, 50, 1 / 30, rtt_s) <= here
        assert capacity(inference_s, 2 * rate_hz, 50, 1 / 30, rtt_s) <= here
        assert capacity(inference_s, rate_hz, 50, 1 / 30, rtt_s + 0.1) <= here


class RememberingPolicy(SteadyPolicy):
    """Answers with the sum of all states since its last reset, as one with an observation queue would."""

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
    assert find_serving_mode(SteadyPolicy(), "wave") is ServingMode.SHARED


def test_a_policy_that_remembers_is_found_out_and_served_exclusively():
    assert find_serving_mode(RememberingPolicy(), "wave") is ServingMode.EXCLUSIVE


def test_a_policy_that_draws_random_numbers_is_served_exclusively():
    policy, rng = SteadyPolicy(), np.random.default_rng(0)
    policy.answer = lambda batch: [rng.normal(size=(CHUNK_SIZE, 2)).astype(np.float32) for _ in batch]
    assert find_serving_mode(policy, "wave") is ServingMode.EXCLUSIVE


def test_the_probe_leaves_nothing_behind():
    policy = RememberingPolicy()
    find_serving_mode(policy, "wave")
    assert not policy._sum.any()


@pytest.mark.parametrize("supports_rtc", [True, False])
def test_a_policy_that_continues_prefixes_is_warmed_up_with_one(supports_rtc: bool):
    """Else the first robot pays for what guidance needs to get going."""
    policy = SteadyPolicy(supports_rtc=supports_rtc)
    asked = []
    processors = policy.make_processors()
    processors.pre = lambda observation: asked.append(observation) or observation.state
    processors.post = lambda chunk: chunk
    policy.make_processors = lambda: processors
    warm_up(policy, 2, "wave", frozen_clock)
    assert [observation.prefix_model is not None for observation in asked] == [supports_rtc] * 2
    if supports_rtc:
        assert asked[0].prefix_model.shape == (CHUNK_SIZE, len(JOINTS))
