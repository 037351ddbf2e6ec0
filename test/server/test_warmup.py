# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Warm-up refuses policies that cannot answer, and computes how many robots one worker can serve."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from remote_inference.base.policy import Float32Array, PolicyError, ServingMode
from remote_inference.server.manifest.manifest import Manifest, ModelSource
from remote_inference.server.warmup import (
    TIMED_INFERENCES,
    Rehearsal,
    capacity,
    find_unkept_promises,
    largest_batch,
    make_ready,
    warm_up,
)
from support.builders import CHUNK_SIZE, SteadyPolicy, make_offer, make_request, make_spec
from support.server.bench import JsonDecoder, serialize


def frozen_clock() -> int:
    return 0


def rehearse(policy: SteadyPolicy) -> Rehearsal:
    return Rehearsal(policy, JsonDecoder(), [serialize(make_request())], make_offer())


def warm(policy: SteadyPolicy, inferences: int = 1, **options: Any) -> float:
    return warm_up(policy, rehearse(policy), inferences, **{"clock_ns": frozen_clock, **options})


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_working_policy_is_warmed_up_and_then_timed_by_the_median(batch_size: int):
    """The first calls are cold, and one of the timed calls may be disturbed."""
    policy, calls = SteadyPolicy(max_batch=4), []
    healthy = policy.answer
    policy.answer = lambda batch: (calls.append(len(batch)), healthy(batch))[1]
    durations_ms = iter([40, 40, 900, 41, 39])
    readings = itertools.accumulate(durations_ms, initial=0)
    request_s = warm(policy, 3, batch_size=batch_size, clock_ns=lambda: next(readings) * 1_000_000)
    assert request_s == pytest.approx(0.04 / batch_size)
    assert calls == [batch_size] * (3 + TIMED_INFERENCES)


def test_every_request_is_decoded_and_has_processors_of_its_own():
    policy, decoder, made = SteadyPolicy(max_batch=3), JsonDecoder(), []
    make, decode, decoded = policy.make_processors, decoder.observation, []
    policy.make_processors = lambda: (made.append(make()), made[-1])[1]  # type: ignore[method-assign]
    decoder.observation = lambda *parts: (decoded.append(parts), decode(*parts))[1]  # type: ignore[method-assign]
    Rehearsal(policy, decoder, [serialize(make_request())], make_offer()).run(3)
    assert (len(decoded), len(made)) == (3, 3)


def test_a_batch_has_different_requests_in_turn():
    """Robots that share a call differ in prefix and delay, and a policy may take longer for them."""
    policy = SteadyPolicy(max_batch=5)
    requests = [serialize(make_request(), state) for state in ((0.1, 0.0), (0.2, 0.0), (0.3, 0.0))]
    seen = []
    healthy = policy.answer
    policy.answer = lambda batch: (seen.append([float(state[0]) for state in batch]), healthy(batch))[1]
    rehearsal = Rehearsal(policy, JsonDecoder(), requests, make_offer())
    rehearsal.run()
    rehearsal.run(5)
    assert seen == [pytest.approx([0.1]), pytest.approx([0.1, 0.2, 0.3, 0.1, 0.2])]


def test_processors_that_work_in_place_hide_nothing_that_the_policy_said() -> None:
    policy = SteadyPolicy()
    policy.answer = lambda batch: [np.full((CHUNK_SIZE, 2), np.nan, np.float32) for _ in batch]
    processors = policy.make_processors()
    processors.post = lambda chunk: np.nan_to_num(chunk, copy=False)  # type: ignore[method-assign]
    policy.make_processors = lambda: processors  # type: ignore[method-assign]
    with pytest.raises(PolicyError, match="chunk_model: found non-finite values"):
        rehearse(policy).run()


@pytest.mark.parametrize(("mode", "resets"), [(ServingMode.EXCLUSIVE, 1), (ServingMode.SHARED, 0)])
def test_an_exclusive_policy_is_reset_after_a_rehearsal(mode: ServingMode, resets: int):
    """The robot's next observation must not follow a sample observation."""
    policy = SteadyPolicy(serving_mode=mode)
    rehearse(policy).run()
    assert policy.resets == resets


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
    if words == "":  # numpy cannot add a state to this answer, so the answer itself is checked
        processors = policy.make_processors()
        processors.post = lambda chunk: chunk  # type: ignore[method-assign]
        policy.make_processors = lambda: processors  # type: ignore[method-assign]
    with pytest.raises(PolicyError) as refusal:
        warm(policy)
    assert "waver" in str(refusal.value)
    assert words in str(refusal.value)


def test_a_policy_without_processors_is_refused():
    policy = SteadyPolicy()

    def broken() -> Any:
        raise FileNotFoundError("normalizer.safetensors")

    policy.make_processors = broken  # type: ignore[method-assign]
    with pytest.raises(PolicyError, match=r"normalizer\.safetensors"):
        warm(policy)


@pytest.mark.parametrize(
    ("inference_s", "rate_hz", "horizon", "rtt_s", "expected"),
    [
        (0.1, 1.0, 50, 0.0, 8),  # load: 0.8 / 0.1; deadline: 0.8333 / 0.1 = 8.3
        (0.1, 2.0, 50, 0.0, 4),
        (0.1, 0.1, 50, 0.0, 8),  # load allows 80, the deadline 8
        (0.1, 0.1, 50, 0.5, 3),
        (0.1, 1.0, 50, 2.0, 0),  # no robot can be answered in time: 0, not negative
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


def test_a_policy_that_cannot_take_the_largest_batch_is_refused():
    policy = SteadyPolicy(max_batch=8)
    healthy = policy.answer

    def answer(batch: Sequence[Any]) -> Any:
        if len(batch) > 4:
            raise MemoryError("no room on the device")
        return healthy(batch)

    policy.answer = answer
    warm(policy, batch_size=4)
    with pytest.raises(PolicyError, match="with a batch of 8 failed: MemoryError: no room"):
        warm(policy, batch_size=8)


def make_manifest(**changes: Any) -> Manifest:
    return Manifest(model=ModelSource(backend="hold", path="x"), **changes)


EXCLUSIVE = {"serving_mode": ServingMode.EXCLUSIVE}


@pytest.mark.parametrize(
    ("manifest", "spec", "expected"),
    [
        ({"max_sessions": 40}, {"max_batch": 16}, 1),
        ({"scheduler": "micro_batch", "max_sessions": 40}, {"max_batch": 16}, 8),
        ({"scheduler": "micro_batch", "max_sessions": 40, "max_batch": 32}, {"max_batch": 16}, 16),
        ({"scheduler": "micro_batch", "max_sessions": 3}, {"max_batch": 16}, 3),
        ({"scheduler": "micro_batch", "max_sessions": 40}, {"max_batch": 16, **EXCLUSIVE}, 1),
    ],
)
def test_the_largest_batch_is_bounded_by_manifest_policy_and_sessions(
    manifest: dict, spec: dict, expected: int
):
    assert largest_batch(make_manifest(**manifest), make_spec(**spec)) == expected


@pytest.mark.parametrize(
    ("manifest", "spec", "words"),
    [
        ({"max_sessions": 4}, {}, []),
        ({"max_sessions": 50}, {}, ["max_sessions is 50, but the policy's speed allows 40"]),
        ({"max_sessions": 4}, EXCLUSIVE, ["max_sessions is 4, but an exclusive policy serves one robot"]),
        ({"max_sessions": 1}, EXCLUSIVE, []),
        ({"max_batch": 32}, {"max_batch": 16}, []),
        (
            {"max_batch": 32, "scheduler": "micro_batch"},
            {"max_batch": 16},
            ["max_batch is 32, but the policy takes at most 16"],
        ),
    ],
)
def test_promises_that_the_policy_cannot_keep_are_named(manifest: dict, spec: dict, words: list[str]):
    found = find_unkept_promises(make_manifest(**manifest), make_spec(**spec), robots=40)
    assert len(found) == len(words)
    assert all(word in line for word, line in zip(words, found, strict=True))


@pytest.mark.parametrize(("default_task", "reads_task"), [("", True), ("", False), ("wave", True)])
def test_a_manifest_without_a_task_for_a_policy_that_reads_it_is_a_warning(
    default_task: str, reads_task: bool
):
    policy = SteadyPolicy()
    policy.spec = replace(policy.spec, reads_task=reads_task)
    ready = make_ready(policy, rehearse(policy), make_manifest(default_task=default_task), frozen_clock)
    assert list(ready.warnings) == (
        [
            "default_task: found none, but policy waver reads the task; expected it unless every robot "
            "names a task: those without are refused"
        ]
        if reads_task and not default_task
        else []
    )


def test_other_requests_are_warmed_up_before_the_policy_is_ready():
    policy, runs = SteadyPolicy(), []

    class Other(Rehearsal):
        def run(self, batch_size: int = 1) -> list[Float32Array]:
            runs.append(batch_size)
            return super().run(batch_size)

    other = Other(**vars(rehearse(policy)))
    ready = make_ready(policy, rehearse(policy), make_manifest(), frozen_clock, [other])
    assert len(runs) >= make_manifest().warmup_inferences
    assert ready.warnings == ()
