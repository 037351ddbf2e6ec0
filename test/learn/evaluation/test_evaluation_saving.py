# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`--save` writes what every episode has shown and executed: whole episodes only, as they end."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from remote_inference.learn.evaluation.document import EpisodeKey
from remote_inference.learn.evaluation.results import EpisodeResult
from remote_inference.learn.evaluation.saving import EPISODES_FILE, SavedEpisodes
from remote_inference.learn.rollouts.saving import SavingError
from remote_inference.tools import cli
from support.environments.drawer import FRONT, Drawer
from support.evaluation.drawer_evaluation import make_result, play, write_evaluation

MODES: dict[str, Any] = {"modes": ["stepped", "charged"], "latencies_ms": [200]}


def read(folder: Path) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """Return the columns of the only data file, and what is told of each episode."""
    table = pq.read_table(folder / "data/chunk-000/file-000.parquet")
    columns = {name: np.array(table[name].to_pylist()) for name in table.column_names}
    return columns, json.loads((folder / EPISODES_FILE).read_text())["episodes"]


def test_every_tick_has_what_was_shown_and_executed(tmp_path: Path) -> None:
    policies = {"pull": {"path": "pull.manifest.yaml"}, "any": {"kind": "random"}}
    path = write_evaluation(tmp_path, policies=policies, episodes=2, num_envs=2, **MODES)
    data = tmp_path / "data"
    _, results = play(path, tmp_path / "out", save=partial(SavedEpisodes, data))
    columns, episodes = read(data)
    assert json.loads((data / "meta/info.json").read_text())["fps"] == 10
    assert len(episodes) == len(results) == 8
    frames = Drawer()
    for number, told in enumerate(episodes):
        (result,) = [one for one in results if json.loads(json.dumps(one.outcome)) == told]
        rows = columns["episode_index"] == number
        assert rows.sum() == result.steps
        actions, rewards = columns["action"][rows], columns["next.reward"][rows]
        first = frames.reset(result.seed, "open", frames.spec.features)
        shown = [first, *(frames.step(action).observation for action in actions[:-1])]
        states = [one.values["observation.state"] for one in shown]
        assert np.allclose(columns["observation.state"][rows], states, atol=1e-6)
        assert np.isclose(rewards.sum(), result.total_reward, atol=1e-4)
        assert list(columns["next.done"][rows]) == [False] * (result.steps - 1) + [True]
        assert columns["next.success"][rows][-1] == result.success
    assert (data / f"videos/{FRONT}/chunk-000/file-000.mp4").exists()


def test_saving_changes_no_episode(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path, episodes=3, **MODES)
    _, plain = play(path, tmp_path / "out")
    _, saved = play(path, tmp_path / "again", save=partial(SavedEpisodes, tmp_path / "data"))
    assert [one.digest for one in saved] == [one.digest for one in plain]


def test_only_episodes_that_are_played_now_are_saved(tmp_path: Path) -> None:
    out = tmp_path / "out"
    play(write_evaluation(tmp_path, episodes=2), out)
    play(write_evaluation(tmp_path, episodes=3), out, save=partial(SavedEpisodes, tmp_path / "data"))
    _, episodes = read(tmp_path / "data")
    assert [one["seed"] for one in episodes] == [2]


def test_an_episode_that_could_not_be_played_is_not_saved(tmp_path: Path) -> None:
    source = {"name": "support.evaluation.trying_drawer:TryingDrawer", "options": {"broken_seed": 1}}
    path = write_evaluation(tmp_path, environment=source, episodes=3)
    tally, _ = play(path, tmp_path / "out", save=partial(SavedEpisodes, tmp_path / "data"))
    assert len(tally.unplayed) == 1
    columns, episodes = read(tmp_path / "data")
    assert [one["seed"] for one in episodes] == [0, 2]
    assert set(columns["episode_index"]) == {0, 1}


def test_an_episode_without_a_tick_is_left_out(tmp_path: Path) -> None:
    with SavedEpisodes(tmp_path / "data", Drawer().spec) as saved:
        saved.add(make_result(), [])
    assert json.loads((tmp_path / "data" / EPISODES_FILE).read_text()) == {"episodes": []}


def test_a_folder_that_exists_is_refused_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_evaluation(tmp_path, episodes=1)
    out = tmp_path / "out"
    assert cli.main(["evaluate", str(path), "--out", str(out), "--save", str(tmp_path)]) == 2
    assert f"{tmp_path}: exists, expected a new path" in capsys.readouterr().err
    assert not out.exists()
    with pytest.raises(SavingError, match="exists"):
        SavedEpisodes(tmp_path, Drawer().spec)


def test_a_data_set_that_cannot_be_written_ends_the_run_and_is_named(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"

    def lose(key: EpisodeKey, result: EpisodeResult | None, why: str) -> None:
        shutil.rmtree(data)

    path = write_evaluation(tmp_path, episodes=3)
    with pytest.raises(SavingError, match=f"{data}: cannot be written"):
        play(path, out, save=partial(SavedEpisodes, data), report=lose)
    assert play(path, out)[0].played == 2


def test_the_verb_saves(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path, episodes=2)
    words = ["evaluate", path, "--out", tmp_path / "out", "--save", tmp_path / "data", "--quiet"]
    assert cli.main([*map(str, words)]) == 0
    assert len(read(tmp_path / "data")[1]) == 2
