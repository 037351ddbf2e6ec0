# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo that learns: the arm goes on picking while a trainer beside it changes the served policy."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from remote_inference.base.errors import UserError
from remote_inference.base.paths import share_path
from remote_inference.tools.demo.run import DemoOptions, Episode, first_seed, run_episode, running
from remote_inference.tools.demo.trainer_log import POLICY_FOLDER, read_updates
from remote_inference.tools.deployment.bringup import Process

LEARNING_LATENCY_MS = 600.0
BEGINNER = "belt_arm_beginner"
EPISODES_BEFORE = 8
LATENCIES_AFTER_MS = (0.0, 300.0)
EPISODES_AFTER = 10


@dataclass(frozen=True)
class Attempt:
    """An episode of a run that learns. begin_s: since the trainer was started, negative before [s]."""

    begin_s: float
    end_s: float
    episode: Episode


@dataclass(frozen=True)
class Learning:
    """The progress of a run that learns. version: that the server serves; None before the first update."""

    since_s: float
    attempts: tuple[Attempt, ...]
    version: int | None
    state: str


Report = Callable[[Learning], None]


def run_learning(
    options: DemoOptions, duration_s: float, folder: Path, attempts: list[Attempt], report: Report
) -> float:
    """Run episodes with the beginner, then for `duration_s` while it learns; return when that began.

    That is in Unix time [s]. attempts: receives each when it ends. The last policy is in `folder`. Raises
    ProcessError when a process ends, OperatorError when something does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="remote_inference_") as home:
        socket = Path(home) / "weights.socket"  # a socket's path must be short
        section = {"weights": {"accept": True, "socket": str(socket)}}
        with running(options, folder, section) as (group, operator):
            play = partial(run_episode, operator, group)
            run = _Run(play, first_seed(options), folder, attempts, report)
            for _ in range(EPISODES_BEFORE):
                run.run_one()
            run.begin_learning()
            group.start(_trainer(socket, folder, options))
            while run.since_s < duration_s:
                run.run_one()
            return run.began_s


def after_learning(options: DemoOptions, latency_ms: float, folder: Path) -> DemoOptions:
    """Return the options of a run with the learned policy. Raises UserError when nothing was learned."""
    policy = (folder / POLICY_FOLDER).absolute()
    if not policy.is_dir():
        raise UserError(f"{policy}: there is none: the trainer sent no weights")
    return DemoOptions(EPISODES_AFTER, latency_ms, options.strategy, options.seed, str(policy), record=False)


@dataclass
class _Run:
    """Runs one episode after the other and keeps them with their times."""

    _play: Callable[[int, Callable[[str], None]], Episode]  # the episode of a seed
    _seed: int  # of the first
    _folder: Path
    _attempts: list[Attempt]
    _report: Report
    _is_learning: bool = False

    def __post_init__(self) -> None:
        self._start_clock()

    @property
    def since_s(self) -> float:
        """Since the trainer was started, or else since the run began."""
        return time.monotonic() - self._origin_s

    def begin_learning(self) -> None:
        passed_s, self._is_learning = self.since_s, True
        self._start_clock()
        self._attempts[:] = [
            Attempt(attempt.begin_s - passed_s, attempt.end_s - passed_s, attempt.episode)
            for attempt in self._attempts
        ]

    def _start_clock(self) -> None:
        self.began_s = time.time()  # for the trainer's log, whose times are Unix times
        self._origin_s = time.monotonic()  # of the same moment: nobody sets this clock while it learns

    def run_one(self) -> None:
        begin_s = self.since_s
        episode = self._play(self._seed + len(self._attempts), self._show)
        self._attempts.append(Attempt(begin_s, self.since_s, episode))
        self._show("")

    def _show(self, state: str) -> None:
        updates = read_updates(self._folder)
        version = updates[-1].version if updates else None
        since_s = self.since_s if self._is_learning else 0.0
        self._report(Learning(since_s, tuple(self._attempts), version, state))


def _trainer(socket: Path, folder: Path, options: DemoOptions) -> Process:
    """Describe the trainer, which is an example and no part of what robots and servers need."""
    words = [sys.executable, "-m", "belt_arm.trainer"]
    words += ["--policy", str(share_path("config", "models", BEGINNER)), "--socket", str(socket)]
    words += ["--out", str(folder), "--seed", str(options.seed)]
    found = os.pathsep.join([str(share_path("examples")), *filter(None, [os.environ.get("PYTHONPATH")])])
    return Process("trainer", "trainer", words=words, environment={"PYTHONPATH": found})
