# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo as a verb: one run, a sweep or a run that learns, and what it shows.

On a terminal that is a live line while it runs and a table at the end; in a pipe a line for each run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TimeElapsedColumn

from remote_inference.bags.timeline.timeline_reader import load_timeline
from remote_inference.base.clients.operator_client import OperatorError
from remote_inference.base.errors import UserError
from remote_inference.learn.environments.belt_arm import EPISODE_LIMIT_S
from remote_inference.learn.environments.belt_arm.strategies import STRATEGIES, TRAINED
from remote_inference.tools.demo import run
from remote_inference.tools.demo.results import (
    LATENCIES_MS,
    WINDOW,
    Cell,
    Sweep,
    as_lines,
    as_rows,
    draw_learning,
    link_latest,
    write_learning,
    write_results,
    write_summary,
    write_sweep,
)
from remote_inference.tools.demo.run import Attempt, DemoOptions, Episode, LearningReport, Report
from remote_inference.tools.deployment.process_group import ProcessError
from remote_inference.tools.tables import Table, print_table

STARTS = "starting a policy server, the simulated arm and its robot's node"
STATE_STYLES = {
    "CONNECTING": "cyan",
    "STREAMING": "green",
    "DEGRADED": "yellow",
    "STALLED": "dark_orange",
    "RECONNECTING": "magenta",
    "DEAD": "bold red",
}


@dataclass(frozen=True)
class Display:
    """What the demo shows, and where: with `give_json`, which takes the result, the console is stderr."""

    console: Console
    quiet: bool  # no progress
    give_json: Callable[[Any], None] | None

    @property
    def is_live(self) -> bool:
        """Whether progress is drawn: lines that change need a terminal."""
        return self.console.is_terminal and not self.quiet

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def announce(self, text: str) -> None:
        """Say what begins now and may take a while."""
        if not self.quiet:
            self.say(text)

    def show_summary(self, summary: Mapping[str, Any], folder: Path) -> None:
        self._show(summary, summary_table(summary), folder, "summary.json", "report.png", "frames.png", "bag")

    def show_learning(self, summary: Mapping[str, Any], folder: Path) -> None:
        table = Table("Belt arm demo, learning", ("", " "), as_lines(summary))
        self._show(summary, table, folder, "learning.json", "learning.png", "bag", "policy")

    def show_sweep(self, cells: Sweep, folder: Path) -> None:
        self._show(as_rows(cells), sweep_table(cells), folder, "sweep.json", "sweep.png")

    def _show(self, result: Any, table: Table, folder: Path, *names: str) -> None:
        if self.give_json:
            self.give_json(result)
            return
        print_table(table)
        for path in (folder / name for name in names):
            if path.exists():
                self.say(f"  {path}")


def _live_line(display: Display, *columns: str | ProgressColumn) -> Progress:
    """Return a line with some columns, the cubes picked, the robot's state and the time."""
    shown: list[str | ProgressColumn] = ["{task.description}", *columns]
    shown += ["{task.fields[picked]}", "{task.fields[state]}", TimeElapsedColumn()]
    return Progress(*shown, console=display.console, disable=not display.is_live)


@contextmanager
def live_progress(display: Display, options: DemoOptions) -> Iterator[Report]:
    """Show a run; yield a function that takes its progress."""
    done = ""
    with _live_line(display, BarColumn(), MofNCompleteColumn()) as line:
        description = f"{options.strategy}, {options.path_text}"
        task = line.add_task(description, total=options.episodes, picked="", state="")

        def report(episodes: Sequence[Episode], state: str) -> None:
            nonlocal done
            done = _picked(episodes)
            line.update(task, completed=len(episodes), picked=done, state=_state_text(state))

        yield report
    if not (display.is_live or display.quiet):
        display.say(f"{description}: {done}")


def _state_text(state: str) -> str:
    """Return a state's name as rich draws it, as wide as the longest."""
    return f"[{STATE_STYLES.get(state, 'white')}]{state:<12}[/]"


def summary_table(summary: Mapping[str, Any]) -> Table:
    latency, cycle = summary["latency_ms"], "no request was answered"
    if latency["n"]:
        cycle = "p50 {p50:.1f}, p95 {p95:.1f}, p99 {p99:.1f} ms ({n} requests)".format_map(latency)
    actions = {name: count for name, count in summary["actions_by_source"].items() if count}
    states = ", ".join(f"{entry['state']} {entry['seconds']:.1f} s" for entry in summary["states_visited"])
    rows = [
        ("cubes picked", f"{summary['successes']} of {summary['episodes']} ({summary['success_rate']:.0%})"),
        ("policy", summary["policy"]),
        ("strategy", f"{summary['strategy']} ({STRATEGIES[summary['strategy']].label})"),
        ("injected latency", summary["injected"]),
        ("request cycle", cycle),
        ("control ticks by source", ", ".join(f"{name} {count}" for name, count in actions.items())),
        ("states", states),
    ]
    return Table("Belt arm demo", ("", " "), rows)


def sweep_table(cells: Sweep) -> Table:
    strategies = [name for name in STRATEGIES if any(key[0] == name for key in cells)]
    labels = tuple(STRATEGIES[strategy].label for strategy in strategies)
    rows = []
    for latency_ms in sorted({key[1] for key in cells}):
        row = (cells.get((strategy, latency_ms)) for strategy in strategies)
        shares = (f"{one.success_rate:.0%} ({one.successes}/{one.episodes})" if one else "" for one in row)
        rows.append((f"{latency_ms:g} ms", *shares))
    return Table("Cubes picked by injected latency", ("latency", *labels), rows, labels)


def _picked(episodes: Sequence[Episode]) -> str:
    successes = sum(episode.success for episode in episodes)
    return f"picked {successes} of {len(episodes)}" if episodes else ""


# -- A run that learns, while it goes on: a live line on the terminal, and a picture that is drawn anew --


@contextmanager
def live_learning(
    display: Display, options: DemoOptions, duration_s: float, folder: Path
) -> Iterator[LearningReport]:
    """Show a run; yield a function that takes its progress, and draws learning.png after each attempt."""
    with _live_line(display, BarColumn(bar_width=20), "{task.fields[version]}") as line:
        description = f"learn, {options.latency_ms:g} ms"
        task = line.add_task(description, total=duration_s, version="", picked="", state="")
        drawn = 0

        def report(since_s: float, attempts: Sequence[Attempt], version: int | None, state: str) -> None:
            nonlocal drawn
            line.update(
                task,
                completed=since_s,
                version=f"version {version}" if version else "beginner",
                picked=_picked([attempt.episode for attempt in attempts[-WINDOW:]]),
                state=_state_text(state),
            )
            if len(attempts) > drawn:
                drawn = len(attempts)
                draw_learning(options, attempts, time.time() - since_s, folder)

        yield report


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
