# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures a policy of the belt arm under several conditions and writes its model card."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from belt_arm.delayed_robot import REQUEST_EVERY_TICKS
from belt_arm.evaluate import (
    Evaluation,
    Steps,
    evaluate,
    evaluate_expert,
)
from belt_arm.labelled_episode import (
    JPEG_QUALITY,
    POLICY_IMAGE_HEIGHT,
    POLICY_IMAGE_WIDTH,
)
from remote_inference.base.policy import Policy
from remote_inference.learn.environments.belt_arm import EPISODE_LIMIT_S
from remote_inference.learn.environments.belt_arm.scene import BELT_SPEED_M_S, IMAGE_HEIGHT, IMAGE_WIDTH
from remote_inference.learn.environments.belt_arm.strategies import (
    BLOCKING,
    GUIDANCE,
    NO_TRIM,
    TRAINED,
    TRIM,
    Strategy,
)

FIRST_EVALUATION_SEED = 0
EVALUATION_EPISODES = 100
_RESULTS, _LIMITS = "## Success and smoothness", "## Limits"


@dataclass(frozen=True)
class Condition:
    """One row of the model card's table."""

    latency_s: float
    strategy: Strategy
    cameras_black: bool = False
    jitter_s: float = 0.0
    hint_error_s: float = 0.0

    def __str__(self) -> str:
        parts = [f"{1000 * self.latency_s:.0f} ms", self.strategy.name]
        if self.cameras_black:
            parts.append("both cameras black")
        if self.jitter_s:
            parts.append(f"jitter {1000 * self.jitter_s:.0f} ms")
        if self.hint_error_s:
            parts.append(f"hint wrong by {1000 * self.hint_error_s:+.0f} ms")
        return ", ".join(parts)


@dataclass(frozen=True)
class ExpertCondition:
    """A row in which the expert itself answers, who sees everything."""

    latency_s: float
    knows_delay: bool

    def __str__(self) -> str:
        plan = "the arrival" if self.knows_delay else "the present"
        return f"{1000 * self.latency_s:.0f} ms, expert's plan for {plan}"


Results = Sequence[tuple[Condition | ExpertCondition, Evaluation]]


def _conditions(latencies_s: Sequence[float], *strategies: Strategy) -> tuple[Condition, ...]:
    return tuple(Condition(latency_s, strategy) for latency_s in latencies_s for strategy in strategies)


_FEW_LATENCIES_S = (0.0, 0.3, 0.6)
_LATENCIES_S = (0.0, 0.3, 0.45, 0.6, 0.8, 1.0)
_BLIND = Condition(0.0, TRIM, cameras_black=True)
_TRAINED = (
    replace(_BLIND, strategy=TRAINED),
    *_conditions(_LATENCIES_S, TRAINED),
    *(
        Condition(latency_s, TRAINED, jitter_s=jitter_s, hint_error_s=error_s)
        for latency_s in (0.3, 0.6, 1.0)
        for jitter_s, error_s in ((0.1, 0.0), (0.0, -0.1), (0.0, 0.1))
    ),
)

_EXPERT = tuple(ExpertCondition(latency_s, known) for known in (False, True) for latency_s in _LATENCIES_S)

# By the policy's name.
CONDITIONS: Mapping[str, Sequence[Condition | ExpertCondition]] = {
    "belt_arm": (*_TRAINED, *_EXPERT),
    "belt_arm_flow": _TRAINED,
    "belt_arm_beginner": _conditions(_LATENCIES_S, TRAINED),
    "belt_arm_plain": (
        _BLIND,
        *_conditions(_FEW_LATENCIES_S, BLOCKING, NO_TRIM),
        *_conditions(_LATENCIES_S, TRIM),
    ),
    "belt_arm_guidance": (_BLIND, *_conditions(_LATENCIES_S, TRIM, GUIDANCE)),
}


def measure(policy: Policy, progress: Callable[[str], None], episodes: int = EVALUATION_EPISODES) -> Results:
    """Return what `evaluate` finds under each condition of the policy's."""
    seeds = range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + episodes)
    results: list[tuple[Condition | ExpertCondition, Evaluation]] = []
    for condition in CONDITIONS[policy.spec.name]:
        result = _evaluate(policy, condition, seeds)
        results.append((condition, result))
        progress(f"evaluate {policy.spec.name}: {condition}: {result.successes}/{result.episodes}")
    return results


def _evaluate(policy: Policy, condition: Condition | ExpertCondition, seeds: Sequence[int]) -> Evaluation:
    if isinstance(condition, ExpertCondition):
        chunk_size = policy.spec.chunk_size
        return evaluate_expert(
            seeds, latency_s=condition.latency_s, knows_delay=condition.knows_delay, chunk_size=chunk_size
        )
    return evaluate(
        policy,
        seeds,
        latency_s=condition.latency_s,
        jitter_s=condition.jitter_s,
        hint_error_s=condition.hint_error_s,
        strategy=condition.strategy,
        cameras_black=condition.cameras_black,
    )


def model_card(policy: Policy, facts: Mapping[str, str], results: Results) -> str:
    """Return the text of the model card."""
    fact_rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return f"""# {policy.spec.name}

Picks the red cube off a belt moving at {100 * BELT_SPEED_M_S:g} cm/s in the package's simulator, from two
cameras and the joint positions. Written by `make train-demo` from what it measured. Apache-2.0, like the
package.

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
where a new chunk begins and within chunks. Jitter is uniform, either way; a wrong hint is what the robot
tells the policy beyond the true latency.

| condition | lifted | mean time | steps at seams | steps within chunks |
|---|---|---|---|---|
{rows}"""


def _result_row(condition: Condition | ExpertCondition, result: Evaluation) -> str:
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
