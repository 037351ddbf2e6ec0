# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo on a terminal: one run or a sweep, and where the results go."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console

from remote_inference.demo.console import live_progress, print_summary, print_sweep
from remote_inference.demo.operator import OperatorError
from remote_inference.demo.options import DemoOptions
from remote_inference.demo.results import link_latest, write_results
from remote_inference.demo.run import run_episodes
from remote_inference.demo.sweep import LATENCIES_MS, Cell, write_sweep
from remote_inference.deployment.process_group import ProcessError
from remote_inference.environments.belt_arm.strategies import ROBOT_STRATEGIES
from remote_inference.errors import UserError


def run_demo(arguments: argparse.Namespace) -> int:
    """Run the demo; return the exit code."""
    console = Console()
    folder = arguments.out or Path("runs", time.strftime("%Y%m%d-%H%M%S"))
    if folder.exists():
        raise UserError(f"--out: {folder} exists, expected a folder to create")
    try:
        if arguments.sweep:
            _sweep(console, arguments, folder)
        else:
            _run_once(console, arguments, folder)
    except (ProcessError, OperatorError) as error:
        console.print(f"[red]demo failed:[/] {error}", highlight=False)
        console.print(f"  logs: {folder}", highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    if not arguments.out:
        link_latest(folder)
    return 0


def _run_once(console: Console, arguments: argparse.Namespace, folder: Path) -> None:
    options = DemoOptions(
        arguments.episodes, arguments.latency_ms, arguments.strategy, arguments.seed, arguments.policy
    )
    with live_progress(console, options) as tell:
        episodes = run_episodes(options, folder, tell)
    print_summary(console, write_results(options, episodes, folder), folder)


def _sweep(console: Console, arguments: argparse.Namespace, folder: Path) -> None:
    cells: dict[tuple[str, float], Cell] = {}
    for latency_ms in LATENCIES_MS:
        for strategy in ROBOT_STRATEGIES:
            options = DemoOptions(
                arguments.episodes, latency_ms, strategy, arguments.seed, arguments.policy, record=False
            )
            with live_progress(console, options) as tell:
                episodes = run_episodes(options, folder / f"{strategy}-{latency_ms:g}ms", tell)
            successes = sum(episode.success for episode in episodes)
            cells[strategy, latency_ms] = Cell(strategy, latency_ms, successes, len(episodes))
            write_sweep(cells, folder)
    print_sweep(console, cells, folder)
