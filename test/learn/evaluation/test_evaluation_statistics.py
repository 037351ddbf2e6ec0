# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The numbers of a report, against published ones and against what must hold of any."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from remote_inference.base.errors import UserError
from remote_inference.learn.evaluation.document import Condition, Mode
from remote_inference.learn.evaluation.results import EpisodeResult
from remote_inference.learn.evaluation.statistics import (
    Requirement,
    compare_policies,
    find_degradations,
    find_mcnemar_p,
    find_wilson_interval,
    summarise,
)
from support.evaluation.drawer_evaluation import make_result

STEPPED = Condition("open", "pull", "stepped", 0.0)


@pytest.mark.parametrize(
    ("successes", "episodes", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (15, 50, 0.1910, 0.4375)],
)
def test_wilson_intervals_are_those_of_the_books(
    successes: int, episodes: int, low: float, high: float
) -> None:
    assert find_wilson_interval(successes, episodes) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_wilson_interval_holds_its_rate_and_mirrors(found: tuple[int, int]) -> None:
    successes, episodes = found
    low, high = find_wilson_interval(successes, episodes)
    assert 0 <= low <= successes / episodes + 1e-12
    assert successes / episodes - 1e-12 <= high <= 1
    mirrored = find_wilson_interval(episodes - successes, episodes)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-12)


@pytest.mark.parametrize(
    ("first", "second", "p"), [(0, 0, 1.0), (0, 6, 0.03125), (1, 9, 0.021484375), (5, 5, 1.0)]
)
def test_mcnemar_is_the_exact_binomial_test(first: int, second: int, p: float) -> None:
    assert find_mcnemar_p(first, second) == find_mcnemar_p(second, first) == pytest.approx(p)


def test_policies_are_compared_on_the_seeds_that_both_have_played() -> None:
    good = [make_result(seed, policy="good") for seed in range(6)]
    bad = [make_result(seed, policy="bad", success=seed == 3) for seed in range(2, 9)]
    (pair,) = compare_policies([*good, *bad])
    assert (pair.first, pair.second, pair.episodes) == ("bad", "good", 4)
    assert (pair.only_first, pair.only_second) == (0, 3)
    assert pair.p == pytest.approx(0.25)


def test_a_summary_has_mean_and_standard_deviation_of_each_number() -> None:
    results = [
        make_result(seed, metrics={"way": way, "lost": None}, steps=10 + seed, success=seed > 0)
        for seed, way in enumerate((1.0, 2.0, 4.0))
    ]
    (one,) = summarise(results, [STEPPED])
    assert (one.episodes, one.successes) == (3, 2)
    assert one.numbers["way"].mean == pytest.approx(7 / 3)
    assert one.numbers["way"].std == pytest.approx(math.sqrt(7 / 3))
    assert "lost" not in one.numbers
    assert (one.steps.mean, one.steps.std) == (11, 1)


def late(mode: Mode, latency_ms: float, *successes: bool) -> list[EpisodeResult]:
    return [
        make_result(seed, mode=mode, latency_ms=latency_ms, success=success)
        for seed, success in enumerate(successes)
    ]


@pytest.mark.parametrize("mode", ["charged", "real_time"])
def test_degradation_is_the_success_that_a_latency_costs(mode: Mode) -> None:
    results = [
        make_result(0),
        make_result(1),
        *late(mode, 300.0, True, True),
        *late(mode, 600.0, True, False),
    ]
    conditions = [STEPPED, *(Condition("open", "pull", mode, at) for at in (300.0, 600.0))]
    found = find_degradations(summarise(results, conditions))
    assert {one.condition.mode for one in found} == {mode}
    assert [(one.condition.latency_ms, one.points) for one in found] == [(300.0, 0.0), (600.0, 0.5)]


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ("success>=0.5", True),
        ("success > 0.5", False),
        ("success<=0.5", True),
        ("success<0.5", False),
        ("total_reward>=1", True),
        ("way<1e3", True),
    ],
)
def test_a_requirement_is_kept_or_says_what_was_found(text: str, is_kept: bool) -> None:
    results = [make_result(seed, success=bool(seed), metrics={"way": 3.0}) for seed in range(2)]
    (one,) = summarise(results, [STEPPED])
    problem = Requirement.parse(text).find_problem(one)
    assert problem == "" if is_kept else "found success 0.5, expected success" in problem


def test_a_requirement_of_a_number_that_nobody_has_is_not_kept() -> None:
    (one,) = summarise([make_result()], [STEPPED])
    assert "no episode has a number 'speed'" in Requirement.parse("speed>=1").find_problem(one)


@pytest.mark.parametrize(
    "text", ["", "success", "success=0.9", "success>=", "success>=high", "success>=nan", ">=1"]
)
def test_what_is_no_requirement_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"expected such as success>=0\.9"):
        Requirement.parse(text)
