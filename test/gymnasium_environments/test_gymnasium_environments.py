# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Simulators of other projects are evaluated by the same command as the belt arm.

They stand in an environment of their own: `make test-environments`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

pytest.importorskip("gym_pusht", reason="gym-pusht is not installed here: make test-environments")

from remote_inference.learn.environments import make_environment
from remote_inference.learn.environments.gymnasium_environment import STATE

HOME = Path(__file__).parent
MAPPINGS = HOME.parents[1] / "config" / "environments"
TIMEOUT_S = 600.0
EPISODES, STEPS = 2, 8


@dataclass(frozen=True)
class Simulator:
    """One environment and what the tests must know of it."""

    gym_id: str
    mapping: str
    metrics: tuple[str, ...]  # that it computes itself
    image: tuple[int, int, int] | None = None


SIMULATORS = {
    "pusht": Simulator("gym_pusht:gym_pusht/PushT-v0", "pusht.yaml", ("coverage",), (96, 96, 3)),
    "aloha": Simulator(
        "gym_aloha:gym_aloha/AlohaTransferCube-v0", "aloha_transfer_cube.yaml", ("reward",), (480, 640, 3)
    ),
    "fetch": Simulator("gymnasium_robotics:FetchReach-v4", "fetch_reach.yaml", ()),
}


def read_mapping(simulator: Simulator) -> dict[str, Any]:
    return yaml.safe_load((MAPPINGS / simulator.mapping).read_text())


def write_policies(folder: Path, name: str) -> dict[str, dict[str, str]]:
    """Write what a scripted policy, a random one and a trajectory need; return a document's section."""
    simulator = SIMULATORS[name]
    mapping = read_mapping(simulator)
    names = mapping["action_names"]
    options = {
        "names": names,
        "fps": mapping["control_rate_hz"],
        "images": dict.fromkeys(mapping.get("images", {}), simulator.image),
    }
    model = {"backend": "scripted:reach", "path": "none"}
    if name != "fetch":
        model = {"backend": "scripted:stay", "path": "none", "options": options}
    (folder / "scripted.manifest.yaml").write_text(yaml.safe_dump({"model": model}))
    actions = np.full((STEPS, len(names)), 0.5, np.float32)
    np.savez(folder / "recorded.npz", actions=actions, names=np.array(names))
    return {
        "scripted": {"kind": "manifest", "path": "scripted.manifest.yaml"},
        "random": {"kind": "random"},
        "recorded": {"kind": "trajectory", "path": "recorded.npz"},
    }


def evaluate(folder: Path, name: str, **changes: Any) -> list[dict[str, Any]]:
    """Run the command; return its results in the order of policies and seeds."""
    simulator = SIMULATORS[name]
    options = {"mapping": str(MAPPINGS / simulator.mapping)}
    document = {
        "environment": {"name": f"gymnasium:{simulator.gym_id}", "options": options},
        "policies": write_policies(folder, name),
        "episodes": EPISODES,
        "max_steps": STEPS,
        **changes,
    }
    path = folder / f"{name}.evaluation.yaml"
    path.write_text(yaml.safe_dump(document))
    command = [str(Path(sys.executable).with_name("remote-inference")), "evaluate", str(path)]
    ran = subprocess.run(
        [*command, "--out", str(folder / "results")],
        env={**os.environ, "PYTHONPATH": str(HOME)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = (folder / "results" / "episodes.jsonl").read_text().splitlines()
    assert (folder / "results" / "report.html").exists()
    return sorted(map(json.loads, lines), key=lambda one: (one["policy"], one["seed"]))


@pytest.mark.parametrize("name", SIMULATORS)
def test_scripted_random_and_recorded_actions_are_evaluated(tmp_path: Path, name: str) -> None:
    results = evaluate(tmp_path, name)
    played = [(one["policy"], one["seed"]) for one in results]
    assert played == [(policy, seed) for policy in ("random", "recorded", "scripted") for seed in range(2)]
    assert all(1 <= one["steps"] <= STEPS for one in results)
    for one in results:
        assert set(one["metrics"]) == set(SIMULATORS[name].metrics), "as the environment computes them"


@pytest.mark.parametrize("name", ["pusht", "aloha"])
def test_a_robot_may_be_told_to_stay_where_an_episode_begins(name: str) -> None:
    """gym-aloha's own action space ends before the elbows' first position."""
    simulator = SIMULATORS[name]
    options = {"mapping": str(MAPPINGS / simulator.mapping)}
    environment = make_environment(f"gymnasium:{simulator.gym_id}", options)
    spec = environment.spec
    assert spec.state_names == spec.actions.names
    state = environment.reset(0, spec.tasks[0], [STATE]).values[STATE]
    environment.close()
    beyond = (state < np.array(spec.actions.lower)) | (state > np.array(spec.actions.upper))
    assert [name for name, is_beyond in zip(spec.state_names, beyond, strict=True) if is_beyond] == []


def test_a_policy_that_reaches_succeeds_and_random_motion_does_not(tmp_path: Path) -> None:
    results = evaluate(tmp_path, "fetch", max_steps=50, episodes=5)
    successes = {
        policy: sum(one["success"] for one in results if one["policy"] == policy)
        for policy in ("scripted", "random")
    }
    assert successes["scripted"] == 5
    assert successes["random"] < 5


def test_the_same_seed_gives_the_same_episode(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    first, again = evaluate(tmp_path, "pusht"), evaluate(tmp_path / "again", "pusht")
    assert [one["digest"] for one in first] == [one["digest"] for one in again]
