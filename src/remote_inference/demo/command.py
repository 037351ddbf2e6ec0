# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo: one run or a sweep, and where the results go."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from remote_inference.demo.console import Display, live_progress
from remote_inference.demo.learn import (
    BEGINNER,
    EPISODES_BEFORE,
    LATENCIES_AFTER_MS,
    LEARNING_LATENCY_MS,
    Attempt,
    after_learning,
    run_learning,
)
from remote_inference.demo.learning import write_learning
from remote_inference.demo.learning_console import live_learning
from remote_inference.demo.options import DemoOptions
from remote_inference.demo.results import link_latest, write_results, write_summary
from remote_inference.demo.run import Episode, refuse_other_demos, run_episodes
from remote_inference.demo.sweep import LATENCIES_MS, Cell, write_sweep
from remote_inference.deployment.process_group import ProcessError
from remote_inference.environments.belt_arm import EPISODE_LIMIT_S
from remote_inference.environments.belt_arm.strategies import STRATEGIES, TRAINED
from remote_inference.errors import UserError
from remote_inference.nodes.clients.operator_client import OperatorError

STARTS = "starting a policy server, the simulated arm and its robot's node"


def run_demo(arguments: argparse.Namespace, give_json: Callable[[Any], None] | None = None) -> int:
    """Run the demo; return the exit code. give_json: takes the result instead of a printed table."""
    display = Display(Console(stderr=give_json is not None), arguments.quiet, give_json)
    folder = arguments.out or Path("runs", time.strftime("%Y%m%d-%H%M%S"))
    if folder.exists():
        raise UserError(f"--out: {folder} exists, expected a folder to create")
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    try:
        refuse_other_demos()
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
    options = DemoOptions(
        arguments.episodes,
        arguments.latency_ms or 0.0,
        strategy,
        arguments.seed,
        policy,
        jitter_ms=arguments.jitter_ms,
        loss=arguments.loss,
    )
    episodes: list[Episode] = []
    display.announce(f"{STARTS}; then {_cubes(options.episodes)}")
    try:
        with live_progress(display, options) as tell:
            run_episodes(options, folder, episodes, tell)
        display.announce("drawing report.png and frames.png")
        summary = write_results(options, episodes, folder)
    except (KeyboardInterrupt, ProcessError, OperatorError):
        _say_end(display, f"{len(episodes)} of {options.episodes} episodes", folder)
        if episodes:
            _show_summary_so_far(display, options, episodes, folder)
        raise
    display.show_summary(summary, folder)


def _cubes(count: int) -> str:
    return f"{count} cube{'s' if count > 1 else ''} of at most {EPISODE_LIMIT_S:g} s"


def _say_end(display: Display, finished: str, folder: Path) -> None:
    display.say(f"ended early: {finished} finished, in {folder}")


def _show_summary_so_far(
    display: Display, options: DemoOptions, episodes: Sequence[Episode], folder: Path
) -> None:
    try:
        display.show_summary(write_summary(options, episodes, folder), folder)
    except (UserError, OSError) as error:  # such as a killed recorder: the error that ended the run says more
        display.say(f"no summary: {error}")


def _sweep(display: Display, arguments: argparse.Namespace, folder: Path) -> None:
    cells: dict[tuple[str, float], Cell] = {}
    names = [arguments.strategy] if arguments.strategy else list(STRATEGIES)
    display.announce(f"{len(LATENCIES_MS) * len(names)} runs, each of {_cubes(arguments.episodes)}")
    try:
        for latency_ms in LATENCIES_MS:
            for name in names:
                policy = STRATEGIES[name].policy
                options = DemoOptions(
                    arguments.episodes, latency_ms, name, arguments.seed, policy, record=False
                )
                cells[name, latency_ms] = _run_cell(display, options, folder)
                write_sweep(cells, folder)
    except (KeyboardInterrupt, ProcessError, OperatorError):
        _say_end(display, f"{len(cells)} of {len(LATENCIES_MS) * len(names)} combinations", folder)
        if cells:
            write_sweep(cells, folder)
            display.show_sweep(cells, folder)
        raise
    display.show_sweep(cells, folder)


def _learn(display: Display, arguments: argparse.Namespace, folder: Path) -> None:
    latency_ms = LEARNING_LATENCY_MS if arguments.latency_ms is None else arguments.latency_ms
    options = DemoOptions(0, latency_ms, TRAINED.name, arguments.seed, BEGINNER)
    duration_s = 60.0 * arguments.minutes
    attempts: list[Attempt] = []
    began_s = time.time()
    display.announce(f"{STARTS}; after {_cubes(EPISODES_BEFORE)}, a trainer for {arguments.minutes:g} min")
    try:
        with live_learning(display, options, duration_s, folder) as tell:
            began_s = run_learning(options, duration_s, folder, attempts, tell)
        after = []
        for latency_after_ms in LATENCIES_AFTER_MS:
            options_after = after_learning(options, latency_after_ms, folder)
            after.append(_run_cell(display, options_after, folder))
    except (KeyboardInterrupt, ProcessError, OperatorError):
        _say_end(display, f"{len(attempts)} episodes", folder)
        raise
    display.show_learning(write_learning(options, attempts, began_s, after, folder), folder)


def _run_cell(display: Display, options: DemoOptions, folder: Path) -> Cell:
    episodes: list[Episode] = []
    with live_progress(display, options) as tell:
        run_episodes(options, folder / f"{options.strategy}-{options.latency_ms:g}ms", episodes, tell)
    successes = sum(episode.success for episode in episodes)
    return Cell(options.strategy, options.latency_ms, successes, len(episodes))
