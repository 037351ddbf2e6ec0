# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Statistics of results: rates with their intervals, comparisons by seed, what latency costs."""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from remote_inference.base.errors import UserError
from remote_inference.learn.evaluation.document import STEPPED, Condition
from remote_inference.learn.evaluation.results import EpisodeResult

Z_95 = 1.959963984540054  # of a normal distribution, two-sided
SUCCESS = "success"
BY_SEED = operator.attrgetter("seed")

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of a number over the episodes that have it. std: None of one episode."""

    episodes: int
    mean: float
    std: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        std = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return cls(len(values), float(np.mean(values)), std)


@dataclass(frozen=True)
class Summary:
    """The episodes of one condition. low, high: of the 95 % Wilson interval of the success rate."""

    condition: Condition
    episodes: int
    successes: int
    low: float
    high: float
    steps: Spread
    numbers: Mapping[str, Spread]  # total_reward and the environment's metrics
    policy_versions: tuple[str, ...]
    held_steps: int
    inference_ms: Mapping[str, float | None]  # mean over episodes, largest p95 and p99
    step_ms: Mapping[str, float | None]
    session_wait_ms: float  # of all episodes, until a server had a session for them
    troubles: Mapping[str, int]
    errors: int  # episodes that could not go on

    @property
    def rate(self) -> float:
        return self.successes / self.episodes


@dataclass(frozen=True)
class Pair:
    """Two policies that played the same seeds. p: of McNemar's exact test that neither is better."""

    task: str
    mode: str
    latency_ms: float
    first: str
    second: str
    episodes: int
    only_first: int  # episodes in which only the first succeeded
    only_second: int
    p: float


@dataclass(frozen=True)
class Degradation:
    """What a latency costs a policy: success when the simulator waits, less success when it goes on."""

    condition: Condition
    stepped: float
    late: float

    @property
    def points(self) -> float:
        """Loss of success, in parts of one."""
        return self.stepped - self.late


@dataclass(frozen=True)
class Requirement:
    """A bound that every condition has to keep, such as `success>=0.9`."""

    name: str
    comparison: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """Raise UserError for what is no requirement."""
        found = re.fullmatch(r"\s*([A-Za-z_][\w./-]*)\s*(>=|<=|>|<)\s*(\S+)\s*", text)
        try:
            bound = float(found[3]) if found else math.nan
        except ValueError:
            bound = math.nan
        if found is None or not math.isfinite(bound):
            raise UserError(f"--require: found {text!r}, expected such as success>=0.9")
        return cls(found[1], found[2], bound)

    def __str__(self) -> str:
        return f"{self.name}{self.comparison}{self.bound:g}"

    def find_problem(self, summary: Summary) -> str:
        """Return how a condition does not keep it, or an empty string."""
        means = {name: one.mean for name, one in summary.numbers.items()}
        value = {**means, SUCCESS: summary.rate}.get(self.name)
        if value is None:
            return f"{summary.condition}: no episode has a number {self.name!r}, expected {self}"
        if COMPARISONS[self.comparison](value, self.bound):
            return ""
        return f"{summary.condition}: found {self.name} {value:.4g}, expected {self}"


def find_wilson_interval(successes: int, episodes: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate, of Wilson: it holds for few episodes and at 0 and 1, too."""
    rate, share = successes / episodes, Z_95**2 / episodes
    middle = (rate + share / 2) / (1 + share)
    half = Z_95 * math.sqrt(rate * (1 - rate) / episodes + share / (4 * episodes)) / (1 + share)
    return max(0.0, middle - half), min(1.0, middle + half)


def find_mcnemar_p(only_first: int, only_second: int) -> float:
    """Return the p value of McNemar's exact test, two-sided, of the pairs that came out differently."""
    pairs = only_first + only_second
    tail = sum(math.comb(pairs, count) for count in range(min(only_first, only_second) + 1))
    return float(min(1.0, 2 * tail / 2**pairs))


def summarise(results: Iterable[EpisodeResult], conditions: Iterable[Condition]) -> list[Summary]:
    """Return a summary of each condition that has episodes, in order."""
    by_condition: dict[Condition, list[EpisodeResult]] = {condition: [] for condition in conditions}
    for result in results:
        by_condition.setdefault(result.key.condition, []).append(result)
    found = [(condition, sorted(each, key=BY_SEED)) for condition, each in by_condition.items()]
    return [_summarise(condition, each) for condition, each in found if each]


def compare_policies(results: Collection[EpisodeResult]) -> list[Pair]:
    """Return each two policies that played the same seeds under the same conditions."""
    played: dict[tuple[str, str, float], dict[str, dict[int, bool]]] = {}
    for one in sorted(results, key=BY_SEED):
        place = played.setdefault((one.task, one.mode, one.latency_ms), {})
        place.setdefault(one.policy, {})[one.seed] = one.success
    pairs = []
    for at, policies in played.items():
        for first, second in combinations(sorted(policies), 2):
            seeds = policies[first].keys() & policies[second].keys()
            outcomes = [(policies[first][seed], policies[second][seed]) for seed in seeds]
            only_first = outcomes.count((True, False))
            only_second = outcomes.count((False, True))
            if seeds:
                p = find_mcnemar_p(only_first, only_second)
                pairs.append(Pair(*at, first, second, len(seeds), only_first, only_second, p))
    return pairs


def find_degradations(summaries: Sequence[Summary]) -> list[Degradation]:
    """Return what each latency costs, where the policy was stepped, too."""
    rates = {one.condition: one.rate for one in summaries}
    stepped = {one.condition: replace(one.condition, mode=STEPPED, latency_ms=0.0) for one in summaries}
    late = [at for at in rates if at.has_latency and stepped[at] in rates]
    return [Degradation(at, rates[stepped[at]], rates[at]) for at in late]


def _summarise(condition: Condition, results: Sequence[EpisodeResult]) -> Summary:
    successes = sum(one.success for one in results)
    low, high = find_wilson_interval(successes, len(results))
    numbers: dict[str, list[float]] = {}
    failures: Counter[str] = Counter()
    for one in results:
        for name, value in {"total_reward": one.total_reward, **one.metrics}.items():
            if value is not None and name != SUCCESS:
                numbers.setdefault(name, []).append(float(value))
        failures.update(one.troubles)
    return Summary(
        condition,
        len(results),
        successes,
        low,
        high,
        Spread.of([one.steps for one in results]),
        {name: Spread.of(values) for name, values in numbers.items()},
        tuple(dict.fromkeys(version for one in results for version in one.policy_versions)),
        sum(one.held_steps for one in results),
        _join_times([one.inference for one in results]),
        _join_times([one.step for one in results]),
        sum(one.session_wait_ms for one in results),
        dict(failures),
        sum(bool(one.error) for one in results),
    )


def _join_times(times: Sequence[Any]) -> dict[str, float | None]:
    known = [one for one in times if one.mean_ms is not None]
    if not known:
        return {"mean": None, "p95": None, "p99": None}
    mean = sum(one.mean_ms * one.count for one in known) / sum(one.count for one in known)
    return {"mean": mean, "p95": max(one.p95_ms for one in known), "p99": max(one.p99_ms for one in known)}
