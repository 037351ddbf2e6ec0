# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures a policy of the belt arm under several conditions and writes its model card."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from remote_inference.core.policy import Policy
from remote_inference.environments.belt_arm import EPISODE_LIMIT_S
from remote_inference.environments.belt_arm.collect import (
    JPEG_QUALITY,
    POLICY_IMAGE_HEIGHT,
    POLICY_IMAGE_WIDTH,
)
from remote_inference.environments.belt_arm.emulated_robot import REQUEST_EVERY_TICKS
from remote_inference.environments.belt_arm.evaluate import Evaluation, Steps, evaluate
from remote_inference.environments.belt_arm.scene import BELT_SPEED_M_S, IMAGE_HEIGHT, IMAGE_WIDTH
from remote_inference.environments.belt_arm.strategies import BLOCKING, NO_TRIM, RTC, TRIM, Strategy

FIRST_EVALUATION_SEED = 0
EVALUATION_EPISODES = 100
_RESULTS, _LIMITS = "## Success and smoothness", "## Limits"


@dataclass(frozen=True)
class Condition:
    """One row of the model card's table."""

    latency_s: float
    strategy: Strategy
    cameras_black: bool = False

    def __str__(self) -> str:
        text = f"{1000 * self.latency_s:.0f} ms, {self.strategy.name}"
        return f"{text}, both cameras black" if self.cameras_black else text


Results = Sequence[tuple[Condition, Evaluation]]

LATENCIES_S = (0.0, 0.3, 0.6)
BLIND = Condition(0.0, TRIM, cameras_black=True)


def _conditions(*strategies: Strategy) -> tuple[Condition, ...]:
    return (BLIND, *(Condition(latency_s, strategy) for latency_s in LATENCIES_S for strategy in strategies))


# By the policy's name.
CONDITIONS: Mapping[str, Sequence[Condition]] = {
    "belt_arm": _conditions(BLOCKING, NO_TRIM, TRIM),
    "belt_arm_flow": _conditions(TRIM, RTC),
}


def measure(policy: Policy, progress: Callable[[str], None], episodes: int = EVALUATION_EPISODES) -> Results:
    """Return what `evaluate` finds under each condition of the policy's."""
    seeds = range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + episodes)
    results: list[tuple[Condition, Evaluation]] = []
    for condition in CONDITIONS[policy.spec.name]:
        result = evaluate(
            policy,
            seeds,
            latency_s=condition.latency_s,
            strategy=condition.strategy,
            cameras_black=condition.cameras_black,
        )
        results.append((condition, result))
        progress(f"evaluate {policy.spec.name}: {condition}: {result.successes}/{result.episodes}")
    return results


def model_card(policy: Policy, command: str, facts: Mapping[str, str], results: Results) -> str:
    """Return the text of the model card."""
    fact_rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return f"""# {policy.spec.name}

Picks the red cube off a belt moving at {100 * BELT_SPEED_M_S:g} cm/s in the package's simulator, from two
cameras and the joint positions. Written by `train_demo` from what it measured. Apache-2.0, like the package.

    {command}

Fingerprint: `{policy.spec.fingerprint}`

| | |
|---|---|
{fact_rows}

Images are rendered at {IMAGE_WIDTH}x{IMAGE_HEIGHT}, compressed as JPEG (quality {JPEG_QUALITY}) and averaged
down to {POLICY_IMAGE_WIDTH}x{POLICY_IMAGE_HEIGHT}; serving takes the same path. In four episodes of five the
executed commands were disturbed while the labels stayed the expert's.

{_results_section(results)}

{_LIMITS}

Trained for this scene, this belt speed and these camera poses. It has never seen a real robot.
"""


def replace_results(card: str, results: Results) -> str:
    """Return a model card with other results. Raises ValueError when the card has no place for them."""
    begin, end = card.find(_RESULTS), card.find(_LIMITS)
    if begin < 0 or end < begin:
        raise ValueError(f"expected the headings {_RESULTS!r} and {_LIMITS!r}, in this order")
    return f"{card[:begin]}{_results_section(results)}\n\n{card[end:]}"


def _results_section(results: Results) -> str:
    rows = "\n".join(_result_row(condition, result) for condition, result in results)
    episodes = max(result.episodes for _, result in results)
    return f"""{_RESULTS}

Lifted within {EPISODE_LIMIT_S:g} s at a simulated latency, seeds {FIRST_EVALUATION_SEED} to
{FIRST_EVALUATION_SEED + episodes - 1}, none of them in the training data. The chunks go through the
robot's own queue; `make study` measures this anew. A request is made every {REQUEST_EVERY_TICKS} control
ticks. A step is that of the joint that moves most from one command to the next [rad]: mean and largest,
where a new chunk begins and within chunks.

| condition | lifted | mean time | steps at seams | steps within chunks |
|---|---|---|---|---|
{rows}"""


def _result_row(condition: Condition, result: Evaluation) -> str:
    cells = (
        str(condition),
        f"{result.successes} of {result.episodes}",
        "-" if math.isnan(result.mean_time_s) else f"{result.mean_time_s:.2f} s",
        _steps(result.at_seams),
        _steps(result.within_chunks),
    )
    return f"| {' | '.join(cells)} |"


def _steps(steps: Steps) -> str:
    return "-" if math.isnan(steps.mean) else f"{steps.mean:.4f}, {steps.max:.3f}"
