# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A run plays exactly the episodes that are due, whatever fails on the way, and they come out equal again."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from remote_inference.base.errors import UserError
from remote_inference.base.policy import PolicyError
from remote_inference.learn.environment import EnvError
from remote_inference.learn.environments.emulated_robot import EmulationError
from remote_inference.learn.environments.runners import Timeouts
from remote_inference.learn.evaluation.document import load_evaluation
from remote_inference.learn.evaluation.episode_ledger import find_failure
from remote_inference.learn.evaluation.policies import ServerLostError
from remote_inference.learn.evaluation.results import (
    EpisodeResult,
    ResultsError,
    ResultsFolder,
    merge_folders,
)
from remote_inference.learn.evaluation.run import Run, Shard
from remote_inference.learn.evaluation.saving import SavedEpisodes
from support.evaluation.drawer_evaluation import outcomes, play, write_evaluation

BOTH = {"modes": ["stepped", "charged"], "latencies_ms": [200]}


def test_equal_seeds_give_equal_episodes_bit_for_bit_with_any_number_of_environments(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path, **BOTH)
    _, alone = play(path, tmp_path / "alone")
    path = write_evaluation(tmp_path, num_envs=3, **BOTH)
    _, together = play(path, tmp_path / "together")
    assert outcomes(alone) == outcomes(together)
    assert [one.seed for one in alone] == 2 * list(range(6))
    assert len({one.digest for one in alone}) == 12


def test_merged_shards_equal_one_run(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path, **BOTH)
    _, whole = play(path, tmp_path / "whole")
    parts = [tmp_path / f"part_{number}" for number in range(1, 4)]
    for number, part in enumerate(parts, 1):
        play(path, part, Shard(number, 3))
    evaluation = load_evaluation(path)
    with ResultsFolder(tmp_path / "all", evaluation) as folder:
        assert merge_folders(parts, folder, evaluation) == 12
        merged = sorted(folder.results.values(), key=lambda one: one.key)
    assert outcomes(merged) == outcomes(whole)


def test_a_run_that_was_stopped_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path, **BOTH)
    _, whole = play(path, tmp_path / "whole")
    evaluation = load_evaluation(path)
    with ResultsFolder(tmp_path / "out", evaluation) as folder:

        def stop_after_three(key: Any, result: EpisodeResult | None, why: str) -> None:
            if len(folder.results) == 3:
                run.stop()

        run = Run(evaluation, tmp_path, folder, report=stop_after_three)
        assert run.run().played == 3
    tally, results = play(path, tmp_path / "out")
    assert tally.played == 9
    assert outcomes(results) == outcomes(whole)
    assert play(path, tmp_path / "out")[0].played == 0


def test_an_environment_that_dies_is_started_anew_and_its_episode_counts_the_error(tmp_path: Path) -> None:
    _, whole = play(write_evaluation(tmp_path), tmp_path / "whole")
    environment = {
        "name": "support.evaluation.trying_drawer:TryingDrawer",
        "options": {"deadly_seed": 2, "folder": str(tmp_path)},
    }
    path = write_evaluation(tmp_path, environment=environment)
    tally, results = play(path, tmp_path / "out")
    assert outcomes(results) == outcomes(whole)
    assert tally.failures == {"environment": 1}
    assert [one.troubles for one in results] == [{}, {}, {"environment": 1}, {}, {}, {}]


def test_an_episode_that_cannot_be_played_has_no_line_and_the_others_have(tmp_path: Path) -> None:
    environment = {"name": "support.evaluation.trying_drawer:TryingDrawer", "options": {"broken_seed": 2}}
    path = write_evaluation(tmp_path, environment=environment)
    for _ in range(2):  # the next run tries it again
        tally, results = play(path, tmp_path / "out")
        assert [one.seed for one in results] == [0, 1, 3, 4, 5]
        assert tally.failures == {"environment": 3}
        assert [(key.seed, why) for key, why in tally.unplayed.items()] == [
            (2, "environment: drawer: it is stuck")
        ]


@pytest.mark.parametrize("deadly_in", ["make", "reset"])
def test_an_environment_that_dies_before_the_first_episode_is_started_anew(
    tmp_path: Path, deadly_in: str
) -> None:
    options = {"deadly_in": deadly_in, "folder": str(tmp_path)}
    environment = {"name": "support.evaluation.trying_drawer:TryingDrawer", "options": options}
    tally, results = play(write_evaluation(tmp_path, environment=environment), tmp_path / "out")
    assert len(results) == 6
    assert tally.failures == {"environment": 1}
    assert (tmp_path / "died").exists()


def test_an_environment_that_always_dies_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    environment = {"name": "support.evaluation.trying_drawer:DeadDrawer"}
    with pytest.raises(EnvError, match="DeadDrawer: make: its process has ended"):
        play(write_evaluation(tmp_path, environment=environment), tmp_path / "out")


def test_an_environment_that_hangs_is_ended_in_time(tmp_path: Path) -> None:
    environment = {"name": "support.evaluation.trying_drawer:TryingDrawer", "options": {"step_s": 30.0}}
    path = write_evaluation(tmp_path, environment=environment, episodes=1)
    tally, results = play(path, tmp_path / "out", timeouts=Timeouts(60.0, 60.0, 0.3, 1.0))
    assert (results, tally.failures) == ([], {"environment": 3})
    assert "step took longer than 0.3 s" in next(iter(tally.unplayed.values()))


@pytest.mark.parametrize("mode", ["stepped", "charged"])
def test_a_policy_that_cannot_go_on_has_failed_the_episode(tmp_path: Path, mode: str) -> None:
    modes = {"modes": [mode]} | ({"latencies_ms": [100]} if mode == "charged" else {})
    path = write_evaluation(tmp_path, "support.evaluation.failing_policy:failing", episodes=5, **modes)
    tally, results = play(path, tmp_path / "out")
    failed = next(one for one in results if one.seed == 3)
    assert (failed.success, failed.error) == (False, "the gripper is out of sight")
    assert failed.troubles == {"policy": 1}
    assert len(results) == 5
    assert not tally.unplayed


def write_unknown(folder: Path, seed: int, unknown: str, **changes: Any) -> Path:
    options = {"unknown_seed": seed, "unknown": unknown}
    environment = {"name": "support.evaluation.trying_drawer:TryingDrawer", "options": options}
    return write_evaluation(folder, environment=environment, **changes)


@pytest.mark.parametrize(
    ("unknown", "found"),
    [
        ("reset", "observation.state[0] at 0 s"),
        ("state", "observation.state[0] at 0.3 s"),
        ("time_s", "time_s at nan s"),
        ("reward", "reward at 0.3 s"),
    ],
)
@pytest.mark.parametrize("mode", ["stepped", "charged"])
def test_a_simulator_that_shows_nan_fails_that_episode_alone_and_the_next_run_goes_on(
    tmp_path: Path, mode: str, unknown: str, found: str
) -> None:
    modes = {"modes": [mode]} | ({"latencies_ms": [100]} if mode == "charged" else {})
    save = partial(SavedEpisodes, tmp_path / "data")
    path = write_unknown(tmp_path, 1, unknown, episodes=3, **modes)
    tally, results = play(path, tmp_path / "out", save=save)
    assert [one.error for one in results] == ["", f"drawer: {found}: found nan, expected finite values", ""]
    assert not results[1].success
    assert (tally.failures, results[1].troubles, tally.unplayed) == ({"not_finite": 1}, {"not_finite": 1}, {})
    more, results = play(write_unknown(tmp_path, 1, unknown, episodes=4, **modes), tmp_path / "out")
    assert (more.played, len(results)) == (1, 4)


def test_a_first_seed_that_begins_with_nan_costs_its_own_episode_alone(tmp_path: Path) -> None:
    path = write_unknown(tmp_path, 0, "reset", episodes=2)
    tally, (failed, played) = play(path, tmp_path / "out")
    (warning,) = tally.warnings
    assert warning == f"policies.pull was not checked: {failed.error}"
    assert (failed.success, failed.steps, failed.film, played.success) == (False, 0, "", True)


def test_every_error_has_a_kind_and_a_lost_server_is_nobodys_failure() -> None:
    kinds = {
        error: find_failure(error("")).kind
        for error in (ServerLostError, PolicyError, EnvError, OSError, UserError)
    }
    assert list(kinds.values()) == ["network", "policy", "environment", "other", "other"]
    assert not find_failure(ServerLostError("")).is_result


def test_steps_are_bounded_and_failures_have_film_strips(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path, episodes=5, max_steps=7, **BOTH)
    _, results = play(path, tmp_path / "out")
    assert {one.steps for one in results} == {7}
    assert not any(one.success for one in results)
    strips = [one.film for one in results if one.film]
    assert len(set(strips)) == 6  # three of each condition
    assert all((tmp_path / "out" / strip).stat().st_size for strip in strips)


def test_random_actions_are_filmed_by_the_environment_itself(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path, policies={"random": {"kind": "random"}}, episodes=1, max_steps=7)
    _, (result,) = play(path, tmp_path / "out")
    assert (tmp_path / "out" / result.film).read_bytes().startswith(b"\x89PNG")


def test_latency_is_charged_in_steps_and_never_in_stepped_mode(tmp_path: Path) -> None:
    _, results = play(write_evaluation(tmp_path, episodes=1, **BOTH), tmp_path / "out")
    charged, stepped = results
    assert (charged.mode, stepped.mode) == ("charged", "stepped")
    assert charged.held_steps >= 2
    assert stepped.held_steps == 0
    assert charged.steps > stepped.steps


def test_latencies_that_will_make_the_robot_wait_are_told(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path, episodes=1, modes=["charged"], latencies_ms=[100, 2000])
    tally, _ = play(path, tmp_path / "out")
    assert all(warning.startswith("policies.pull at 2000 ms: ") for warning in tally.warnings)
    assert any("raise buffer_time_s" in warning for warning in tally.warnings)


def test_results_of_another_version_of_a_policy_are_refused(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path, episodes=1)
    play(path, tmp_path / "out")
    line = tmp_path / "out" / "episodes.jsonl"
    line.write_text(line.read_text().replace('["first"]', '["zeroth"]'))
    path = write_evaluation(tmp_path, episodes=2)
    with pytest.raises(ResultsError, match="found results of version zeroth, expected first"):
        play(path, tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"environment": {"name": "shelf"}}, EnvError, "shelf"),
        ({"tasks": ["close"]}, EnvError, "drawer: found task 'close', expected 'open' or 'look'"),
        ({"policies": {"a": {"kind": "trajectory"}}}, PolicyError, "policies.a: path: missing"),
        (
            {"modes": ["charged"], "latencies_ms": [100, 3500]},
            EmulationError,
            "policies.pull at 3500 ms: .*max_action_age_s: found 3, expected more than",
        ),
        ({"environment": {"name": "belt_arm"}, "tasks": []}, EnvError, "belt_arm for policy pull"),
    ],
    ids=["environment", "task", "policy", "latency", "fit"],
)
def test_what_can_never_be_played_is_said_before_the_first_episode_and_leaves_nothing(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        play(write_evaluation(tmp_path, **changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert play(write_evaluation(tmp_path, episodes=1), tmp_path / "out")[0].played == 1


def test_no_thread_is_left_when_a_run_has_ended(tmp_path: Path) -> None:
    play(write_evaluation(tmp_path, num_envs=3), tmp_path / "out")
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("episodes_")]
