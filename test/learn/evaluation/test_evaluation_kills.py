# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random moments, of the evaluator or of its simulators, costs no episode and doubles none."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from remote_inference.learn.evaluation.results import EpisodeResult, read_lines
from support.evaluation.drawer_evaluation import outcomes, play, write_evaluation
from support.importable import python_path
from support.waiting import process_state, wait_until

DEADLINE_S = 300.0
KILLS = int(os.environ.get("EVALUATION_KILLS", "6"))
STEP_S = 0.005


def write(folder: Path) -> Path:
    options = {"step_s": STEP_S, "folder": str(folder)}
    return write_evaluation(
        folder,
        environment={"name": "support.evaluation.trying_drawer:TryingDrawer", "options": options},
        episodes=max(15, 4 * KILLS),
        num_envs=2,
        modes=["stepped", "charged"],
        latencies_ms=[200],
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """What an evaluation brings that nobody kills."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", python_path())
        return outcomes(play(write(folder), folder / "out")[1])


def lines_of(out: Path) -> int:
    file = out / "episodes.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def test_an_evaluator_that_is_killed_at_random_moments_plays_each_episode_once(
    tmp_path: Path, whole: list[dict[str, object]]
) -> None:
    path, out, rng, killed = write(tmp_path), tmp_path / "out", random.Random(5), 0
    call = [
        sys.executable,
        "-m",
        "remote_inference.tools.cli",
        "evaluate",
        str(path),
        "--out",
        str(out),
        "--quiet",
    ]
    for _ in range(KILLS):
        target = lines_of(out) + rng.randrange(4)
        evaluator = subprocess.Popen(call)
        try:
            wait_until(
                lambda evaluator=evaluator, target=target: (
                    lines_of(out) >= target or evaluator.poll() is not None
                ),
                f"{target} episodes are written",
                DEADLINE_S,
            )
            time.sleep(rng.uniform(0.0, 0.2))  # a random moment is what this test is about
        finally:
            killed += evaluator.poll() is None
            evaluator.kill()
            evaluator.wait(30.0)
    assert killed == KILLS, "it had played everything before"
    assert subprocess.run(call, timeout=DEADLINE_S).returncode == 0
    results = sorted(read_lines(out / "episodes.jsonl", EpisodeResult, mends=False), key=lambda one: one.key)
    assert outcomes(results) == whole
    left = [int(file.name.removeprefix("pid_")) for file in tmp_path.glob("pid_*")]
    wait_until(lambda: not any(map(process_state, left)), "the simulators of killed evaluators have ended")


def test_simulators_that_are_killed_at_random_moments_cost_no_episode(
    tmp_path: Path, whole: list[dict[str, object]]
) -> None:
    path, rng = write(tmp_path), random.Random(6)
    ended = threading.Event()
    killed: list[int] = []

    def kill_now_and_then() -> None:
        while len(killed) < KILLS and not ended.wait(rng.uniform(0.05, 0.4)):
            running = [int(file.name.removeprefix("pid_")) for file in tmp_path.glob("pid_*")]
            running = [process_id for process_id in running if process_state(process_id)]
            if running:
                with suppress(ProcessLookupError):  # it has ended by itself meanwhile
                    os.kill(victim := rng.choice(running), signal.SIGKILL)
                    killed.append(victim)

    def play_until_whole(out: Path) -> None:
        met = 0
        while True:
            tally, results = play(path, out)
            met += tally.failures["environment"]
            if not tally.unplayed:  # killed three times in one episode: the next run plays it
                break
        assert outcomes(results) == whole
        assert met >= sum(sum(one.troubles.values()) for one in results)

    killer = threading.Thread(target=kill_now_and_then, daemon=True)
    killer.start()
    try:
        evaluations = 0
        while len(killed) < KILLS:  # an evaluation may end sooner
            play_until_whole(tmp_path / f"out_{evaluations}")
            evaluations += 1
    finally:
        ended.set()
        killer.join(30.0)
    assert len(killed) == KILLS
