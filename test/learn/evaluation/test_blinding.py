# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A blind evaluation shows letters until it is revealed, and its order tells nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remote_inference.learn.evaluation.blinding import mix, open_names
from remote_inference.learn.evaluation.document import load_evaluation
from remote_inference.learn.evaluation.results import NAMES, ResultsError
from remote_inference.tools.cli import main
from support.evaluation.drawer_evaluation import write_evaluation

POLICIES = {"skilled": {"path": "pull.manifest.yaml"}, "lucky": {"kind": "random"}}


def write_blind(folder: Path) -> Path:
    return write_evaluation(folder, policies=POLICIES, episodes=2, blind=True)


def test_nothing_that_is_shown_tells_which_policy_is_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write_blind(tmp_path), tmp_path / "out"
    assert main(["evaluate", str(path), "--out", str(out), "--json"]) == 0
    printed = capsys.readouterr().out
    shown = printed + (out / "report.html").read_text() + (out / "task_summary.json").read_text()
    assert not [name for name in POLICIES if name in shown]
    names = json.loads((out / NAMES).read_text())
    assert {*names} == {*POLICIES}
    assert sorted(names.values()) == ["A", "B"]
    by_letter = {one["policy"]: one for one in json.loads(printed)["summary"]["conditions"]}
    assert all(one["policy_versions"] == [] for one in by_letter.values())
    assert by_letter[names["skilled"]]["successes"] == 2
    assert by_letter[names["lucky"]]["successes"] < 2

    assert main(["evaluate", str(path), "--out", str(out)]) == 0
    assert json.loads((out / NAMES).read_text()) == names, "the letters stay"
    assert main(["evaluate", str(path), "--out", str(out), "--reveal"]) == 0
    assert "skilled" in (out / "report.html").read_text()


def test_which_policy_plays_a_seed_first_is_drawn(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path, policies=POLICIES, episodes=100, blind=True)
    keys = mix(load_evaluation(path).keys("open"))
    assert [key.seed for key in keys] == [seed for seed in range(100) for _ in POLICIES]
    first = [key.condition.policy for key in keys[::2]]
    assert 20 < first.count("lucky") < 80


def test_a_file_of_other_policies_is_refused(tmp_path: Path) -> None:
    evaluation = load_evaluation(write_blind(tmp_path))
    (tmp_path / NAMES).write_text('{"skilled": "A"}')
    with pytest.raises(ResultsError, match=r"blind\.json: found .*expected a letter for each"):
        open_names(tmp_path, evaluation)
    (tmp_path / NAMES).write_text('{"skilled": "A", "lucky": "A"}')
    with pytest.raises(ResultsError, match="expected a letter for each"):
        open_names(tmp_path, evaluation)
    (tmp_path / NAMES).write_text("{")
    with pytest.raises(ResultsError, match=r"blind\.json"):
        open_names(tmp_path, evaluation)


def test_one_policy_cannot_be_blind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_evaluation(tmp_path, blind=True)
    assert main(["evaluate", str(path), "--out", str(tmp_path / "out")]) == 2
    assert "policies: found 1, expected 2 to 26 to be blind" in capsys.readouterr().err


def test_there_is_nothing_to_reveal_of_names_that_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_evaluation(tmp_path)
    assert main(["evaluate", str(path), "--out", str(tmp_path / "out"), "--reveal"]) == 2
    assert "--reveal: expected `blind: true`" in capsys.readouterr().err


def test_letters_that_were_drawn_for_a_refused_document_do_not_stay(tmp_path: Path) -> None:
    others = {"careful": {"kind": "trajectory"}, "lucky": {"kind": "random"}}
    refused = write_evaluation(tmp_path, policies=others, episodes=2, blind=True)
    assert main(["evaluate", str(refused), "--out", str(tmp_path / "out"), "--quiet"]) == 2
    assert main(["evaluate", str(write_blind(tmp_path)), "--out", str(tmp_path / "out"), "--quiet"]) == 0


def test_an_episode_that_was_not_played_does_not_tell_its_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"broken_seed": 0}
    environment = {"name": "support.evaluation.trying_drawer:TryingDrawer", "options": options}
    path = write_evaluation(tmp_path, policies=POLICIES, episodes=1, blind=True, environment=environment)
    assert main(["evaluate", str(path), "--out", str(tmp_path / "out"), "--json"]) == 1
    shown = capsys.readouterr()
    assert "why is shown by --reveal" in shown.err
    assert {one["why"] for one in json.loads(shown.out)["unplayed"]} == {
        "environment: why is shown by --reveal"
    }
    assert not [name for name in (*POLICIES, "stuck") if name in shown.out + shown.err]


def test_shards_cannot_be_blind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_blind(tmp_path)
    assert main(["evaluate", str(path), "--out", str(tmp_path / "out"), "--shard", "1/2"]) == 2
    assert "each shard would draw letters" in capsys.readouterr().err
