# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference evaluate`: what it prints and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from remote_inference.tools.cli import main
from support.evaluation.drawer_evaluation import write_evaluation

Said = pytest.CaptureFixture[str]


def evaluate(path: Path, out: Path, *options: str) -> int:
    return main(["evaluate", str(path), "--out", str(out), *options])


def test_episodes_are_played_once_and_the_table_is_the_same_again(tmp_path: Path, capsys: Said) -> None:
    path = write_evaluation(tmp_path, episodes=3)
    assert evaluate(path, tmp_path / "out") == 0
    first = capsys.readouterr().out
    assert "100% (3 of 3)" in first
    heads = first.splitlines()[0]
    assert heads.split() == ["policy", "mode", "latency", "success", "95", "%", "interval", "steps"]
    assert not re.search("[\u2500-\u257f\x1b]", first), "in a pipe"
    assert "3 episodes played now, 3 of 3 in all" in first
    assert evaluate(path, tmp_path / "out") == 0
    again = capsys.readouterr().out
    assert again == first.replace("3 episodes played now", "0 episodes played now")


def test_a_requirement_that_is_not_kept_ends_with_one_and_says_what_was_found(
    tmp_path: Path, capsys: Said
) -> None:
    path = write_evaluation(tmp_path, episodes=2, max_steps=4)
    assert evaluate(path, tmp_path / "out", "--require", "success<=0.5") == 0
    assert evaluate(path, tmp_path / "out", "--require", "success>=0.9") == 1
    assert (
        "not kept: pull, stepped, 'open': found success 0, expected success>=0.9" in capsys.readouterr().out
    )


def test_shards_are_merged_and_the_whole_is_whole(tmp_path: Path, capsys: Said) -> None:
    path = write_evaluation(tmp_path, episodes=4)
    parts = [tmp_path / "part_1", tmp_path / "part_2"]
    for number, part in enumerate(parts, 1):
        assert evaluate(path, part, "--shard", f"{number}/2", "--quiet") == 0
    assert capsys.readouterr().out == ""
    assert evaluate(path, tmp_path / "all", "--merge", str(parts[0])) == 1, "half of it is missing"
    assert "2 of 4 in all" in capsys.readouterr().out
    assert evaluate(path, tmp_path / "all", "--merge", *map(str, parts)) == 0
    assert "4 of 4 in all" in capsys.readouterr().out


def test_json_is_one_object_with_what_could_not_be_played(tmp_path: Path, capsys: Said) -> None:
    environment = {"name": "support.evaluation.trying_drawer:TryingDrawer", "options": {"broken_seed": 1}}
    path = write_evaluation(tmp_path, episodes=2, environment=environment)
    assert evaluate(path, tmp_path / "out", "--json") == 1
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["summary"]["episodes_played"] == 1
    assert found["troubles"] == {"environment": 3}
    assert [(one["seed"], one["why"]) for one in found["unplayed"]] == [
        (1, "environment: drawer: it is stuck")
    ]
    assert "not played: pull, stepped, 'open', seed 1: environment: drawer: it is stuck" in said.err


def test_a_refused_document_leaves_nothing_so_that_the_mended_one_is_not_another(
    tmp_path: Path, capsys: Said
) -> None:
    out = tmp_path / "out"
    assert evaluate(write_evaluation(tmp_path, tasks=["close"]), out) == 2
    assert "drawer: found task 'close', expected 'open' or 'look'" in capsys.readouterr().err
    assert not out.exists()
    assert evaluate(write_evaluation(tmp_path, episodes=1), out) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--shard", "4/3"), "--shard: found '4/3', expected such as 3/16"),
        (("--require", "success"), "--require: found 'success'"),
        (("--merge", "part", "--shard", "1/2"), "--merge: found with --shard"),
        (("--merge", "nowhere"), "nowhere/evaluation.json: not found"),
    ],
)
def test_a_mistake_ends_with_two_and_says_what_was_expected(
    tmp_path: Path, capsys: Said, options: tuple[str, ...], said: str
) -> None:
    assert evaluate(write_evaluation(tmp_path), tmp_path / "out", *options) == 2
    assert said in capsys.readouterr().err
