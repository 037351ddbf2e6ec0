# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference demo`: its options, one run or a sweep, and where the results go."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console

from remote_inference.demo.console import live_progress, print_summary, print_sweep
from remote_inference.demo.operator import OperatorError
from remote_inference.demo.results import link_latest, write_results
from remote_inference.demo.run import POLICIES, STRATEGIES, DemoOptions, run_episodes
from remote_inference.demo.sweep import LATENCIES_MS, Cell, write_sweep
from remote_inference.deployment.process_group import ProcessError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--episodes", type=_positive, default=10, help="cubes to try (default 10)")
    parser.add_argument(
        "--latency-ms", type=_latency, default=0.0, help="latency injected in the server's network path [ms]"
    )
    parser.add_argument(
        "--strategy",
        choices=tuple(STRATEGIES),
        default="trim",
        help="trim: overlap requests and drop the rows of the delay; no_trim: overlap without dropping; "
        "blocking: stop and wait (default trim)",
    )
    parser.add_argument(
        "--policy",
        choices=tuple(POLICIES),
        default="belt_arm",
        help="belt_arm: regression; belt_arm_flow: flow matching, continues the running chunk (RTC) "
        "(default belt_arm)",
    )
    parser.add_argument("--seed", type=_natural, default=0, help="chooses the episodes (default 0)")
    parser.add_argument(
        "--sweep",
        action="store_true",
        help="run every strategy at 0 to 600 ms; the other choices are ignored",
    )
    parser.add_argument("--out", type=Path, help="folder of the results (default runs/<stamp>)")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; return the exit code."""
    console = Console()
    folder = arguments.out or Path("runs", time.strftime("%Y%m%d-%H%M%S"))
    if folder.exists():
        console.print(f"[red]--out: {folder} exists, expected a folder to create")
        return 2
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
        for strategy in STRATEGIES:
            options = DemoOptions(
                arguments.episodes, latency_ms, strategy, arguments.seed, arguments.policy, record=False
            )
            with live_progress(console, options) as tell:
                episodes = run_episodes(options, folder / f"{strategy}-{latency_ms:g}ms", tell)
            successes = sum(episode.success for episode in episodes)
            cells[strategy, latency_ms] = Cell(strategy, latency_ms, successes, len(episodes))
            write_sweep(cells, folder)
    print_sweep(console, cells, folder)


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"found {value}, expected at least 1")
    return value


def _natural(text: str) -> int:
    if (value := int(text)) < 0:
        raise argparse.ArgumentTypeError(f"found {value}, expected at least 0")
    return value


def _latency(text: str) -> float:
    if not 0.0 <= (value := float(text)) <= 60_000.0:
        raise argparse.ArgumentTypeError(f"found {value}, expected 0 to 60000")
    return value
