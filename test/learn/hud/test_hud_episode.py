# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An environment as HUD's agents see it: one claim at a time, actions or chunks, a score."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from remote_inference.learn.environment import EnvError, Metrics
from remote_inference.learn.hud.contract import import_contract
from remote_inference.learn.hud.episode import HudEnvironment
from support.environments.line import STATE, TOP, Line


def rows(*values: float) -> Any:
    return np.array(values, np.float32)[:, None]


def claimed(seed: int = 0) -> tuple[Line, HudEnvironment]:
    line = Line()
    hud = HudEnvironment(line)
    hud.claim(seed=seed)
    return line, hud


def test_a_robot_s_contract_can_be_begun_from_it() -> None:
    content = import_contract(json.dumps(HudEnvironment(Line()).contract), "contract.json").content
    assert (content["robot_type"], content["fps"]) == ("line", 100.0)
    assert content["state"][0]["names"] == content["actions"]["names"] == ["x"]
    assert list(content["rename"].values()) == [TOP]


def test_the_contract_tells_the_rate_and_the_features_that_hud_knows_by_role() -> None:
    assert HudEnvironment(Line()).contract == {
        "robot_type": "line",
        "control_rate": 100.0,
        "features": {
            STATE: {"role": "observation", "dtype": "float32", "shape": [1], "names": ["x"]},
            TOP: {"role": "observation", "type": "rgb", "dtype": "uint8", "shape": [2, 3, 3]},
            "action": {"role": "action", "dtype": "float32", "shape": [1], "names": ["x"]},
        },
    }


def test_an_episode_is_claimed_bound_stepped_and_scored() -> None:
    hud = HudEnvironment(Line())
    claim = hud.claim(task="slide back", seed=7)
    assert claim["prompt"] == "slide back"
    frame = hud.bind(claim["token"])
    assert frame[STATE] == pytest.approx(0.07)
    assert frame["terminated"] is False
    assert hud.act([0.5])["reward"] == 0.0
    assert hud.act([0.95])["terminated"] is True
    score = hud.release(claim["token"])
    assert score == {"score": 1.0, "success": True, "total_reward": 1.0, "metrics": {"x": 0.95}}


def test_a_metric_that_is_not_finite_is_null_in_the_score() -> None:
    line, hud = claimed()
    line.metrics = lambda: Metrics(False, {"x": np.nan})  # type: ignore[method-assign]
    assert hud.release(None)["metrics"] == {"x": None}


def test_a_second_claim_waits_until_the_slot_is_free() -> None:
    _, hud = claimed()
    with pytest.raises(EnvError, match="slots are claimed"):
        hud.claim()
    hud.release(None)
    assert hud.claim()["prompt"] == "slide"


def test_tokens_are_checked_and_none_stands_for_the_only_one() -> None:
    _, hud = claimed()
    assert hud.bind(None)[STATE] == 0.0
    with pytest.raises(EnvError, match="unknown episode token: 'slot-9'"):
        hud.bind("slot-9")
    hud.release(None)
    with pytest.raises(EnvError, match="no episode is claimed"):
        hud.bind(None)


def test_a_claim_that_fails_leaves_the_slot_free() -> None:
    hud = HudEnvironment(Line())
    with pytest.raises(EnvError, match="found task 'fly'"):
        hud.claim(task="fly")
    hud.claim()


def test_nothing_is_done_after_the_end() -> None:
    _, hud = claimed()
    hud.act([0.95])
    with pytest.raises(EnvError, match="the episode has ended"):
        hud.act([0.0])


def test_a_chunk_s_rows_for_ticks_that_have_passed_are_dropped() -> None:
    line, hud = claimed()
    hud.queue_chunk(rows(0.1, 0.2, 0.3, 0.4, 0.5), obs_index=0)
    hud.tick()
    frame = hud.tick()
    assert line.actions == [0.1, 0.2]
    assert (frame["meta"]["obs_index"], frame["meta"]["queue_remaining"]) == (2, 3)
    assert frame["meta"]["unexecuted_chunk"][:, 0] == pytest.approx([0.3, 0.4, 0.5])
    hud.queue_chunk(rows(0.60, 0.61, 0.62, 0.63), obs_index=0)  # two ticks old
    assert hud.tick()["meta"]["delay"] == 2
    hud.tick()
    assert line.actions == [0.1, 0.2, 0.62, 0.63]


def test_ticks_in_which_the_robot_stood_still_drop_no_rows() -> None:
    line, hud = claimed(seed=5)
    for _ in range(3):
        hud.tick()
    hud.queue_chunk(rows(0.1, 0.2), obs_index=0)
    hud.tick()
    assert line.actions == [0.05, 0.05, 0.05, 0.1]


def test_a_robot_whose_queue_is_empty_holds_its_last_position() -> None:
    line, hud = claimed()
    hud.queue_chunk(rows(0.1, 0.2), obs_index=None)
    for _ in range(4):
        hud.tick()
    assert line.actions == [0.1, 0.2, 0.2, 0.2]


def test_a_robot_that_is_commanded_by_velocity_stops_when_its_queue_is_empty() -> None:
    line = Line("velocity")
    hud = HudEnvironment(line)
    hud.claim(seed=3)
    hud.queue_chunk(rows(0.1), obs_index=0)
    hud.tick()
    hud.tick()
    assert line.actions == [0.1, 0.0]


def test_rows_of_an_episode_do_not_move_the_next() -> None:
    line, hud = claimed()
    hud.queue_chunk(rows(0.1, 0.2, 0.3), obs_index=0)
    hud.release(None)
    hud.claim(seed=1)
    hud.tick()
    assert line.actions == [0.01]


@pytest.mark.parametrize(
    ("chunk", "index", "problem"),
    [
        (np.zeros((2, 2)), 0, r"actions: found shape \[2, 2\], expected \[rows, 1\]"),
        (np.zeros((0, 1)), 0, r"found shape \[0, 1\]"),
        (np.zeros((1, 1, 1)), 0, r"found shape \[1, 1, 1\]"),
        (rows(np.nan), 0, "found values that are not finite"),
        (rows(0.0), 1, "obs_index: found 1, expected 0 to 0"),
        (rows(0.0), -1, "obs_index: found -1, expected 0 to 0"),
        ({"x": 1}, 0, "actions: found"),
        ([[1], [1, 2]], 0, "actions: found"),
    ],
)
def test_a_chunk_that_cannot_be_executed_is_refused(chunk: Any, index: int, problem: str) -> None:
    line, hud = claimed()
    with pytest.raises(EnvError, match=problem):
        hud.queue_chunk(chunk, obs_index=index)
    hud.tick()
    assert line.actions == [0.0]
