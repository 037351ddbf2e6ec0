# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of robots in real time that are lost or that turn out to be others, without a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from remote_inference.base.documents.registry import Registry
from remote_inference.learn.evaluation import real_time
from remote_inference.learn.evaluation.document import EpisodeKey, load_evaluation
from remote_inference.learn.evaluation.episode_ledger import EpisodeLedger, RobotLostError
from remote_inference.learn.evaluation.real_time import RobotPlan, play_in_real_time
from remote_inference.learn.evaluation.results import EpisodeResult, ResultsError, ResultsFolder
from support.environments.drawer import Drawer
from support.evaluation.drawer_evaluation import make_result, write_evaluation


class Robots:
    """Counts what is started and ended. losses: numbers of the plays in which a robot is lost."""

    def __init__(self, versions: list[str], losses: tuple[int, ...] = ()) -> None:
        self.versions, self.losses = versions, losses
        self.plays = self.alive = self.most_alive = self.started = 0

    @contextmanager
    def open(self, plan: RobotPlan) -> Iterator[Any]:
        version = self.versions[min(self.started, len(self.versions) - 1)]
        self.started += 1
        if not version:
            raise RobotLostError("it does not start")
        self.alive += 1
        self.most_alive = max(self.most_alive, self.alive)
        try:
            yield SimpleNamespace(spec=SimpleNamespace(fingerprint=version), play=self.play)
        finally:
            self.alive -= 1

    def play(self, key: EpisodeKey) -> EpisodeResult:
        self.plays += 1
        if self.plays in self.losses:
            raise RobotLostError("a node has died")
        return make_result(key.seed, mode="real_time")


def run(robots: Robots, folder: Path, monkeypatch: pytest.MonkeyPatch, stop: bool = False) -> EpisodeLedger:
    registry = Registry[Any]("kind of policy in real time")
    registry.add("manifest", robots.open)
    monkeypatch.setattr(real_time, "ROBOTS", registry)
    path = write_evaluation(folder, modes=["real_time"], latencies_ms=[0], episodes=4)
    evaluation = load_evaluation(path)
    with ResultsFolder(folder / "out", evaluation) as opened:
        ledger = EpisodeLedger(opened)
        if stop:
            ledger.stop.set()
        try:
            play_in_real_time(evaluation.keys("open"), evaluation, folder, Drawer().spec, ledger)
        finally:
            assert robots.alive == 0, "no robot is left"
            assert robots.most_alive <= 1
    return ledger


def test_one_robot_plays_all_and_a_lost_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    robots = Robots(["first"], losses=(2,))
    ledger = run(robots, tmp_path, monkeypatch)
    assert (ledger.tally.played, ledger.tally.failures, robots.started) == (4, {"robot": 1}, 2)


def test_a_robot_that_returns_with_another_policy_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    robots = Robots(["first", "second"], losses=(2,))
    with pytest.raises(ResultsError, match="found results of version first, expected second"):
        run(robots, tmp_path, monkeypatch)
    assert robots.started == 2


def test_a_robot_that_does_not_return_leaves_its_episodes_to_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    robots = Robots(["first", ""], losses=(2,))
    ledger = run(robots, tmp_path, monkeypatch)
    assert (ledger.tally.played, robots.started) == (1, 3)
    assert [key.seed for key in ledger.tally.unplayed] == [1, 2, 3]
    assert {*ledger.tally.unplayed.values()} == {"robot: it does not start"}


def test_a_run_that_has_ended_starts_no_robot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    robots = Robots(["first"])
    ledger = run(robots, tmp_path, monkeypatch, stop=True)
    assert (robots.started, ledger.tally.played, ledger.tally.unplayed) == (0, 0, {})
