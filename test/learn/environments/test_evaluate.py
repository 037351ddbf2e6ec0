# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The evaluation: the requests of each strategy, and the steps of the arm at seams and within chunks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import yaml

from belt_arm import study
from belt_arm.delayed_robot import REQUEST_EVERY_TICKS, Link
from belt_arm.evaluate import (
    SHIPPED_FLOW_POLICY,
    SHIPPED_GUIDANCE_POLICY,
    SHIPPED_PLAIN_POLICY,
    SHIPPED_POLICY,
    evaluate,
    evaluate_expert,
)
from belt_arm.model_card import (
    CONDITIONS,
    EVALUATION_EPISODES,
    Condition,
    replace_results,
)
from remote_inference.base.paths import share_path
from remote_inference.base.policy import PolicyObservation, PolicySpec
from remote_inference.learn.environments.belt_arm import EPISODE_LIMIT_S
from remote_inference.learn.environments.belt_arm.scene import CONTROL_HZ, IMAGE_FEATURES, JOINT_NAMES
from remote_inference.learn.environments.belt_arm.strategies import (
    BLOCKING,
    GUIDANCE,
    NO_TRIM,
    STRATEGIES,
    TRAINED,
    TRIM,
    Strategy,
)
from remote_inference.robot.config import RobotConfig

SIZE = 40
JUMP, SLOPE = 0.02, 0.001  # rad, below the velocity limit


class Ramps:
    """Each chunk rises by SLOPE a row, and a new one jumps by JUMP; model space is twice robot space."""

    spec = PolicySpec(
        name="ramps",
        revision="1",
        fingerprint="",
        state_names=JOINT_NAMES,
        action_names=JOINT_NAMES,
        image_shapes=dict.fromkeys(IMAGE_FEATURES.values(), (8, 12, 3)),
        chunk_size=SIZE,
        trained_fps=CONTROL_HZ,
    )

    def __init__(self) -> None:
        self.asked: list[PolicyObservation] = []
        self.answers: list[np.ndarray] = []

    def make_processors(self) -> Ramps:
        return self

    def pre(self, observation: PolicyObservation) -> PolicyObservation:
        self.asked.append(observation)
        return observation

    def post(self, chunk_model: np.ndarray) -> np.ndarray:
        return chunk_model / 2

    def predict(self, batch: list[PolicyObservation]) -> list[np.ndarray]:
        jumps = (-1) ** len(self.answers) * JUMP / 2
        rows = np.tile(2 * self.asked[0].state, (SIZE, 1))
        rows[:, 0] += 2 * (jumps + SLOPE * np.arange(SIZE))
        self.answers.append(rows)
        return [rows]

    def reset(self) -> None: ...

    def close(self) -> None: ...


def run(strategy: Strategy, latency_ticks: int) -> tuple[Ramps, object]:
    policy = Ramps()
    result = evaluate(
        policy, [0], latency_s=latency_ticks / CONTROL_HZ, strategy=strategy, cameras_black=True
    )
    return policy, result


@pytest.mark.parametrize("strategy", [TRIM, TRAINED])
def test_steps_at_seams_and_within_chunks_are_measured_separately(strategy: Strategy):
    _, result = run(strategy, 4)
    # Rows overlap: from row 13 of one chunk to row 4 of the next.
    down, up = JUMP + (REQUEST_EVERY_TICKS - 1) * SLOPE, JUMP - (REQUEST_EVERY_TICKS - 1) * SLOPE
    assert result.at_seams.max == pytest.approx(down, rel=1e-3)
    assert result.at_seams.mean == pytest.approx((down + up) / 2, rel=0.1)
    assert result.within_chunks.mean == pytest.approx(SLOPE, rel=1e-2)
    assert result.within_chunks.max == pytest.approx(SLOPE, rel=1e-2)


def test_rtc_sends_the_rows_still_to_execute_in_model_space_and_the_delay():
    policy, _ = run(TRAINED, 4)
    first, second, third = policy.asked[:3]
    assert first.prefix_model is None
    assert {asked.inference_delay_steps for asked in policy.asked} == {4}
    # The first chunk came to a standing arm and was not trimmed: ten ticks after asking, six rows are gone.
    np.testing.assert_array_equal(second.prefix_model, policy.answers[0][6:])
    np.testing.assert_array_equal(third.prefix_model, policy.answers[1][10:])
    np.testing.assert_array_equal(third.prefix_robot, policy.answers[1][10:] / 2)


def test_a_robot_that_stops_to_ask_executes_the_rows_of_its_horizon_and_waits_for_the_next():
    policy, _ = run(BLOCKING, 4)
    cycle = 4 + BLOCKING.parameters["execution_horizon"]
    assert len(policy.asked) == -(-EPISODE_LIMIT_S * CONTROL_HZ // cycle)


def test_every_strategy_is_made_of_valid_parameters_of_the_robot():
    for strategy in STRATEGIES.values():
        RobotConfig.model_validate(strategy.parameters)


def test_robots_in_real_time_plan_anew_as_often_as_those_of_the_published_figures():
    assert rows_before_the_next_request(TRAINED.policy, TRAINED.parameters) == REQUEST_EVERY_TICKS


@pytest.mark.parametrize("strategy", [NO_TRIM, TRIM, GUIDANCE], ids=lambda strategy: strategy.name)
def test_robots_of_plain_policies_ask_again_as_soon_as_an_answer_has_come(strategy: Strategy):
    assert rows_before_the_next_request(strategy.policy, strategy.parameters) <= 1


def test_the_shipped_parameters_of_the_robot_plan_anew_as_often_as_its_strategy():
    text = share_path("config", "belt_arm.params.yaml").read_text(encoding="utf-8")
    parameters = yaml.safe_load(text)["/**/remote_inference"]["ros__parameters"]
    assert rows_before_the_next_request(TRAINED.policy, parameters) == REQUEST_EVERY_TICKS


def rows_before_the_next_request(policy: str, parameters: Mapping[str, str | float]) -> int:
    chunk_size = json.loads((SHIPPED_POLICY.parent / policy / "policy.json").read_text())["chunk_size"]
    buffer_time_s = RobotConfig.model_validate(parameters).buffer_time_s
    return chunk_size - round(float(buffer_time_s) * CONTROL_HZ)


def test_results_replace_those_of_a_model_card_and_nothing_else():
    card = (SHIPPED_PLAIN_POLICY / "README.md").read_text()
    result = run(TRIM, 0)[1]
    changed = replace_results(card, [(Condition(0.2, TRIM), result)])
    assert "| 200 ms, trim | 0 of 1 |" in changed
    assert changed.count("| 0 ms, trim") == 0
    assert changed.split("## ")[0] == card.split("## ")[0]
    assert changed.split("## ")[2:] == card.split("## ")[2:]
    with pytest.raises(ValueError, match="Success and smoothness"):
        replace_results("# no model card", [(Condition(0.2, TRIM), result)])


@pytest.mark.parametrize(
    "folder", [SHIPPED_POLICY, SHIPPED_FLOW_POLICY, SHIPPED_PLAIN_POLICY, SHIPPED_GUIDANCE_POLICY]
)
def test_shipped_model_cards_have_a_row_for_each_condition_of_the_study(folder: Path):
    card = (folder / "README.md").read_text()
    for condition in CONDITIONS[folder.name]:
        assert re.search(rf"\| {re.escape(str(condition))} \| \d+ of {EVALUATION_EPISODES} \|", card)


def test_the_study_names_the_model_cards_that_it_does_not_find(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        study.main(["--models", str(tmp_path)])
    assert f"{tmp_path / 'belt_arm' / 'README.md'}" in capsys.readouterr().err


def test_other_strategies_send_no_prefix():
    policy, _ = run(TRIM, 4)
    assert all(asked.prefix_model is None for asked in policy.asked)


def test_the_expert_itself_fails_at_a_second_unless_it_plans_for_the_moment_of_arrival():
    blind, told = (
        evaluate_expert(range(10), latency_s=1.0, knows_delay=knows_delay, chunk_size=70)
        for knows_delay in (False, True)
    )
    assert blind.successes <= 1
    assert told.successes == 10
    assert told.at_seams.mean < 0.5 * blind.at_seams.mean


def test_latency_varies_by_its_jitter_and_the_robot_expects_its_upper_end():
    link = Link(0.3, jitter_s=0.1, seed=1)
    drawn = [link.draw_ticks() for _ in range(500)]
    assert (min(drawn), max(drawn)) == (7, 12)  # 200 to 400 ms, a tick being 33
    assert link.expected_ticks == 12
    steady = Link(0.3, hint_error_s=-0.1)
    assert {steady.draw_ticks() for _ in range(5)} == {9}
    assert steady.expected_ticks == 6
