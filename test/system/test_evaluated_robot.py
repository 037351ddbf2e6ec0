# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Evaluations in real time: a robot's own node drives the environment, and what dies is started again."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from remote_inference.learn.environment import EnvError
from remote_inference.learn.evaluation.document import EpisodeKey
from remote_inference.learn.evaluation.real_time import LOGS
from remote_inference.learn.evaluation.results import EpisodeResult
from remote_inference.tools.cli import main
from remote_inference.tools.deployment import evaluated_robot
from support.evaluation.drawer_evaluation import play, write_evaluation
from support.importable import python_path
from support.nodes.rig import Rig

POLICY = "support.environments.drawer_policy:load"
DRAWERS = {
    "environment": {"name": "support.environments.drawer:Drawer"},
    "robot": {"buffer_time_s": 0.1},  # a chunk lasts half a second: the next one is planned from near its end
    "first_seed": 60,  # the drawer begins 0.6 of the way open: the policy is slow where a chunk is late
}
REAL_TIME = {
    **DRAWERS,
    "modes": ["real_time"],
    "latencies_ms": [0],
    "episodes": 2,
}


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path())


def children_that_run(executable: str) -> list[int]:
    """Return the processes that run a node of an evaluation here: other tests may run beside this one."""
    command = ["pgrep", "-P", str(os.getpid()), "-f", f"nodes.start {executable} .*/evaluation_"]
    listed = subprocess.run(command, capture_output=True)
    return [int(one) for one in listed.stdout.split()]


def test_what_a_latency_costs_is_said_of_virtual_and_of_real_time(
    rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_evaluation(
        tmp_path,
        POLICY,
        **DRAWERS,
        modes=["stepped", "charged", "real_time"],
        latencies_ms=[300],
        episodes=2,
    )
    out = tmp_path / "out"
    assert main(["evaluate", str(path), "--out", str(out), "--require", "success>=1"]) == 0
    printed = capsys.readouterr().out
    assert "6 episodes played now, 6 of 6 in all" in printed
    rows = [line.split() for line in printed.splitlines() if line.split()[:2] == ["pull", "real_time"]]
    assert [row[2:7] for row in rows] == [["300", "ms", "100%", "(2", "of"]]
    assert "real_time" in (out / "report.html").read_text()
    tally, results = play(path, out)
    assert tally.played == 0
    real = [one for one in results if one.mode == "real_time"]
    assert all(one.policy_versions == ("first",) and one.is_terminated for one in real)
    assert all(one.inference.count > 0 and one.metrics["pull"] >= 0.9 for one in real)
    assert all(one.held_steps for one in real), "the robot waits for its first chunk, and for the next ones"
    assert "policy_server.log" in {file.name for file in (out / LOGS / "pull_300_ms").iterdir()}


def test_a_server_that_runs_is_asked_in_real_time(rig: Rig, tmp_path: Path) -> None:
    live = {"live": {"kind": "server", "server": "/policy_server"}}
    path = write_evaluation(tmp_path, POLICY, **{**REAL_TIME, "policies": live})
    rig.start_server(tmp_path / "pull.manifest.yaml")
    _, results = play(path, tmp_path / "out")
    assert [one.success for one in results] == [True, True]
    assert {one.policy_versions for one in results} == {("first",)}


@pytest.mark.parametrize("executable", ["environment", "policy_server"])
def test_a_node_that_is_killed_costs_no_episode(rig: Rig, tmp_path: Path, executable: str) -> None:
    path = write_evaluation(tmp_path, POLICY, **{**REAL_TIME, "episodes": 3})
    killed: list[int] = []

    def kill_once(key: EpisodeKey, result: EpisodeResult | None, why: str) -> None:
        if not killed:
            (running,) = children_that_run(executable)
            killed.append(running)
            os.kill(running, signal.SIGKILL)

    tally, results = play(path, tmp_path / "out", report=kill_once)
    assert [(one.seed, one.success) for one in results] == [(60, True), (61, True), (62, True)]
    assert tally.failures["robot"] >= 1
    assert not tally.unplayed
    assert not children_that_run(executable), "nothing is left running"


def test_a_policy_that_does_not_fit_ends_the_run_with_its_name(rig: Rig, tmp_path: Path) -> None:
    path = write_evaluation(
        tmp_path, POLICY, **{**REAL_TIME, "environment": {"name": "belt_arm"}, "tasks": []}
    )
    with pytest.raises(EnvError, match=r"belt_arm for policy pull: state: found no"):
        play(path, tmp_path / "out")


def test_a_server_that_does_not_come_up_is_tried_three_times_for_all_episodes(
    rig: Rig, tmp_path: Path
) -> None:
    path = write_evaluation(tmp_path, "support.environments.drawer_policy:Nothing", **REAL_TIME)
    tally, results = play(path, tmp_path / "out")
    assert (results, tally.failures) == ([], {"robot": 3})
    assert [key.seed for key in tally.unplayed] == [60, 61]
    assert all(why.startswith("robot: policy_server ended with exit code") for why in tally.unplayed.values())


def test_a_running_server_that_is_not_there_is_named(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluated_robot, "FIND_S", 0.5)
    nobody = {"live": {"kind": "server", "server": "/nobody"}}
    path = write_evaluation(tmp_path, **{**REAL_TIME, "policies": nobody})
    tally, results = play(path, tmp_path / "out")
    assert (results, tally.failures) == ([], {"robot": 3})
    said = "robot: server /nobody accepts robots: did not happen within 0.5 s"
    assert [*tally.unplayed.values()] == [said, said]


@pytest.mark.parametrize("returns", [True, False])
def test_a_running_server_that_dies_fails_no_episode(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returns: bool
) -> None:
    """The robot notices only after a while, and meanwhile the policy is not to blame."""
    live = {"live": {"kind": "server", "server": "/policy_server"}}
    path = write_evaluation(tmp_path, **{**REAL_TIME, "policies": live, "episodes": 3})
    manifest = tmp_path / "pull.manifest.yaml"
    rig.start_server(manifest)

    def kill_after_the_first(key: EpisodeKey, result: EpisodeResult | None, why: str) -> None:
        if key.seed == 60:
            rig.server.kill()
            rig.server.wait()
            if returns:
                rig.start_server(manifest)
            else:
                monkeypatch.setattr(evaluated_robot, "FIND_S", 0.5)

    tally, results = play(path, tmp_path / "out", report=kill_after_the_first)
    assert all(one.success and one.policy_versions for one in results)
    assert [one.seed for one in results] == ([60, 61, 62] if returns else [60])
    assert tally.failures["robot"] >= 1
    assert len(tally.unplayed) == 3 - len(results)
