# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo: one run or a sweep, and where the results go."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.utilities import get_rmw_implementation_identifier
from rich.console import Console

import remote_inference
from remote_inference.bags.report.report import draw_report
from remote_inference.bags.report.summary import summarise
from remote_inference.bags.timeline.frames import draw_film_strip
from remote_inference.bags.timeline.timeline import Timeline
from remote_inference.bags.timeline.timeline_reader import load_timeline
from remote_inference.base.clients.operator_client import OperatorError
from remote_inference.base.errors import UserError
from remote_inference.base.paths import distribution_of_wheels
from remote_inference.learn.environments.belt_arm import EPISODE_LIMIT_S
from remote_inference.learn.environments.belt_arm.strategies import STRATEGIES, TRAINED
from remote_inference.tools.demo import run
from remote_inference.tools.demo.console import Display, live_learning, live_progress
from remote_inference.tools.demo.results import LATENCIES_MS, Cell, write_learning, write_sweep
from remote_inference.tools.demo.run import Attempt, DemoOptions, Episode
from remote_inference.tools.deployment.process_group import ProcessError

LIBRARIES = ("mujoco", "numpy", "rosbags", "torch")
STARTS = "starting a policy server, the simulated arm and its robot's node"

# -- The results of a run of the demo: summary.json, report.png and frames.png, drawn from its bag -------


def write_results(options: DemoOptions, episodes: Sequence[Episode], folder: Path) -> dict[str, Any]:
    """Read the run's bag, write summary and pictures next to it; return the summary."""
    timeline = load_timeline(folder / "bag", run.NAMESPACE)
    summary = write_summary(options, episodes, folder, timeline)
    picked = f"{summary['successes']} of {len(episodes)} cubes"
    title = f"{options.policy}: {picked}, strategy {options.strategy}, {options.path_text} injected"
    outcomes = {episode.episode_id: episode.success for episode in episodes}
    draw_report(timeline, folder / "report.png", title, outcomes=outcomes)
    draw_film_strip(timeline, folder / "frames.png", window_s=_first_success(timeline, episodes))
    return summary


def write_summary(
    options: DemoOptions, episodes: Sequence[Episode], folder: Path, timeline: Timeline
) -> dict[str, Any]:
    """Write and return only the summary: the pictures take a while. There must be an episode."""
    numbers = summarise(timeline)
    successes = sum(episode.success for episode in episodes)
    summary = {
        "success_rate": successes / len(episodes),
        "successes": successes,
        "episodes": len(episodes),
        "episodes_asked_for": options.episodes,
        "policy": options.policy,
        "strategy": options.strategy,
        "injected_latency_ms": options.latency_ms,
        "injected_jitter_ms": options.jitter_ms,
        "injected_loss": options.loss,
        "injected": options.path_text,
        "seed": options.seed,
        "latency_ms": numbers.pop("latency_ms"),
        "actions_by_source": numbers.pop("actions"),
        "states_visited": numbers.pop("states"),
        "episode_results": [asdict(episode) for episode in episodes],
        "run": numbers,
        "versions": {
            "remote_inference": remote_inference.__version__,
            "python": platform.python_version(),
            "ros_distro": os.environ.get("ROS_DISTRO", "") or distribution_of_wheels() or "unknown",
            "rmw": get_rmw_implementation_identifier(),
            **{library: version(library) for library in LIBRARIES},
        },
    }
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def link_latest(folder: Path) -> None:
    """Let `latest` beside the run's folder point to it."""
    link = folder.parent / "latest"
    temporary = folder.parent / f".latest.{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(folder.name, target_is_directory=True)
    temporary.replace(link)


def _first_success(timeline: Timeline, episodes: Sequence[Episode]) -> tuple[float, float] | None:
    """Return the part of the bag [s] with the first successful episode, None when there is none."""
    for episode in episodes:
        ticks = np.flatnonzero(timeline.executed.episode_id == episode.episode_id)
        if episode.success and len(ticks):
            begin_s = float(timeline.executed.t_s[ticks[0]])
            return begin_s, begin_s + episode.elapsed_s
    return None


# -- The verb --------------------------------------------------------------------------------------------


def run_demo(arguments: argparse.Namespace, give_json: Callable[[Any], None] | None = None) -> int:
    """Run the demo; return the exit code. give_json: takes the result instead of a printed table."""
    display = Display(Console(stderr=give_json is not None), arguments.quiet, give_json)
    folder = arguments.out or Path("runs", time.strftime("%Y%m%d-%H%M%S"))
    if folder.exists():
        raise UserError(f"--out: {folder} exists, expected a folder to create")
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    try:
        run.refuse_second_demo()
        if arguments.sweep:
            _sweep(display, arguments, folder)
        elif arguments.learn:
            _learn(display, arguments, folder)
        else:
            _run_once(display, arguments, folder)
    except (ProcessError, OperatorError) as error:
        print(f"remote-inference demo: {error}\n  logs: {folder}", file=sys.stderr)
        return 1
    if not arguments.out:
        link_latest(folder)
    return 0


def _run_once(display: Display, arguments: argparse.Namespace, folder: Path) -> None:
    strategy = arguments.strategy or TRAINED.name
    policy = arguments.policy or STRATEGIES[strategy].policy
    path = {"jitter_ms": arguments.jitter_ms, "loss": arguments.loss}
    latency_ms = arguments.latency_ms or 0.0
    options = DemoOptions(arguments.episodes, latency_ms, strategy, arguments.seed, policy, **path)
    episodes: list[Episode] = []
    display.announce(f"{STARTS}; then {_cubes(options.episodes)}")
    try:
        with live_progress(display, options) as report:
            run.run_episodes(options, folder, episodes, report)
        display.announce("drawing report.png and frames.png")
        summary = write_results(options, episodes, folder)
    except (KeyboardInterrupt, ProcessError, OperatorError):
        display.say(f"ended early: {len(episodes)} of {options.episodes} episodes finished, in {folder}")
        try:
            if episodes:
                timeline = load_timeline(folder / "bag", run.NAMESPACE)
                display.show_summary(write_summary(options, episodes, folder, timeline), folder)
        except (UserError, OSError) as error:  # such as a killed recorder: what ended the run says more
            display.say(f"no summary: {error}")
        raise
    display.show_summary(summary, folder)


def _cubes(count: int) -> str:
    return f"{count} cube{'s' if count > 1 else ''} of at most {EPISODE_LIMIT_S:g} s"


def _sweep(display: Display, arguments: argparse.Namespace, folder: Path) -> None:
    cells: dict[tuple[str, float], Cell] = {}
    names = [arguments.strategy] if arguments.strategy else list(STRATEGIES)
    runs = len(LATENCIES_MS) * len(names)
    display.announce(f"{runs} runs, each of {_cubes(arguments.episodes)}")
    try:
        for latency_ms in LATENCIES_MS:
            for name in names:
                what = (arguments.episodes, latency_ms, name, arguments.seed, STRATEGIES[name].policy)
                cells[name, latency_ms] = _run_cell(display, DemoOptions(*what, record=False), folder)
                write_sweep(cells, folder)
    except (KeyboardInterrupt, ProcessError, OperatorError):
        display.say(f"ended early: {len(cells)} of {runs} combinations finished, in {folder}")
        if cells:
            write_sweep(cells, folder)
            display.show_sweep(cells, folder)
        raise
    display.show_sweep(cells, folder)


def _learn(display: Display, arguments: argparse.Namespace, folder: Path) -> None:
    latency_ms = run.LEARNING_LATENCY_MS if arguments.latency_ms is None else arguments.latency_ms
    options = DemoOptions(0, latency_ms, TRAINED.name, arguments.seed, run.BEGINNER)
    duration_s = 60.0 * arguments.minutes
    attempts: list[Attempt] = []
    began_s = time.time()
    display.announce(
        f"{STARTS}; after {_cubes(run.EPISODES_BEFORE)}, a trainer for {arguments.minutes:g} min"
    )
    try:
        with live_learning(display, options, duration_s, folder) as report:
            began_s = run.run_learning(options, duration_s, folder, attempts, report)
        runs = (run.after_learning(options, other_ms, folder) for other_ms in run.LATENCIES_AFTER_MS)
        after = [_run_cell(display, options_after, folder) for options_after in runs]
    except (KeyboardInterrupt, ProcessError, OperatorError):
        display.say(f"ended early: {len(attempts)} episodes finished, in {folder}")
        raise
    display.show_learning(write_learning(options, attempts, began_s, after, folder), folder)


def _run_cell(display: Display, options: DemoOptions, folder: Path) -> Cell:
    episodes: list[Episode] = []
    with live_progress(display, options) as report:
        run.run_episodes(options, folder / f"{options.strategy}-{options.latency_ms:g}ms", episodes, report)
    successes = sum(episode.success for episode in episodes)
    return Cell(options.strategy, options.latency_ms, successes, len(episodes))
