# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An evaluation's document says exactly which episodes are played, and mistakes in it are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.errors import UserError
from remote_inference.learn.evaluation.document import load_evaluation
from remote_inference.learn.evaluation.run import Shard
from support.evaluation.drawer_evaluation import write_evaluation


def test_every_policy_plays_the_same_seeds_in_every_mode_and_latency(tmp_path: Path) -> None:
    path = write_evaluation(
        tmp_path,
        policies={"pull": {"path": "pull.manifest.yaml"}, "random": {"kind": "random"}},
        tasks=["open", "look"],
        episodes=3,
        first_seed=7,
        modes=["stepped", "charged"],
        latencies_ms=[0, 300],
    )
    keys = list(load_evaluation(path).keys("open"))
    assert len(keys) == len(set(keys)) == 2 * 2 * (1 + 2) * 3
    by_condition: dict[Any, list[int]] = {}
    for key in keys:
        by_condition.setdefault(key.condition, []).append(key.seed)
    assert set(map(tuple, by_condition.values())) == {(7, 8, 9)}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"episodes": 0}, "episodes: found 0, expected at least 1"),
        ({"episode": 3}, "episode: unknown key, did you mean 'episodes'?"),
        ({"policies": {"pi/0": {"kind": "random"}}}, "policies.pi/0"),
        ({"policies": {}}, "policies: found 0 items, expected at least 1"),
        ({"policies": {"a": {"kind": "manifst"}}}, "did you mean 'manifest'?"),
        ({"modes": ["charged"]}, "latencies_ms: found none, expected one or more for the mode charged"),
        ({"latencies_ms": [300]}, "latencies_ms: found [300.0], expected none for the mode stepped alone"),
        ({"jitter_ms": 50.0}, "jitter_ms: found 50, expected 0 for the mode stepped alone"),
        ({"loss": 0.1}, "loss: found 0.1, expected 0 for the mode stepped alone"),
        (
            {
                "modes": ["real_time"],
                "latencies_ms": [0],
                "policies": {"a": {"kind": "server", "server": "/s"}},
                "loss": 0.1,
            },
            "loss: found 0.1, expected 0 for the mode real_time with policies.a",
        ),
        ({"modes": ["stepped", "stepped"]}, "modes: found ['stepped', 'stepped'], expected each once"),
        ({"modes": ["real"]}, "modes.0: found 'real', expected 'stepped', 'charged' or 'real_time'"),
        ({"robot": {"fallback": "jump"}}, "robot.fallback: found 'jump'"),
        ({"robot": {"command_mode": "shadow"}}, "robot.command_mode: found 'shadow', expected 'live'"),
        (
            {"modes": ["real_time"], "latencies_ms": [0], "policies": {"a": {"kind": "random"}}},
            "policies.a.kind: found random, expected manifest or server for the mode real_time",
        ),
        (
            {
                "modes": ["real_time"],
                "latencies_ms": [0, 300],
                "policies": {"a": {"kind": "server", "server": "/x"}},
            },
            "latencies_ms: found [0.0, 300.0], expected [0] for the mode real_time with policies.a",
        ),
        ({"first_seed": -1}, "first_seed: found -1, expected at least 0"),
    ],
    ids=str,
)
def test_a_mistake_is_named_with_file_and_key(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = write_evaluation(tmp_path, **changes)
    with pytest.raises(DocumentError) as error:
        load_evaluation(path)
    assert str(path) in str(error.value)
    assert said in str(error.value)


def test_shards_share_all_episodes_out(tmp_path: Path) -> None:
    keys = list(load_evaluation(write_evaluation(tmp_path, episodes=10)).keys("open"))
    parts = [Shard.parse(f"{number}/4").pick(keys) for number in range(1, 5)]
    assert sorted(key for part in parts for key in part) == keys
    assert {len(part) for part in parts} == {2, 3}


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "-1/4", "1/4/4", "a/b"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="expected such as 3/16"):
        Shard.parse(text)
