# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo on a terminal: a live line while it runs, a table at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from remote_inference.demo.learning import as_lines
from remote_inference.demo.options import DemoOptions
from remote_inference.demo.run import Episode, Progress
from remote_inference.demo.sweep import Sweep, as_rows
from remote_inference.environments.belt_arm.strategies import STRATEGIES

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

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show_summary(self, summary: Mapping[str, Any], folder: Path) -> None:
        if self.give_json:
            self.give_json(summary)
        else:
            print_summary(self.console, summary, folder)

    def show_learning(self, summary: Mapping[str, Any], folder: Path) -> None:
        if self.give_json:
            self.give_json(summary)
        else:
            print_learning(self.console, summary, folder)

    def show_sweep(self, cells: Sweep, folder: Path) -> None:
        if self.give_json:
            self.give_json(as_rows(cells))
        else:
            print_sweep(self.console, cells, folder)


@contextmanager
def live_progress(display: Display, options: DemoOptions) -> Iterator[Callable[[Progress], None]]:
    """Show a run; yield a function that takes its progress."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[picked]}"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with RichProgress(*columns, console=display.console, disable=display.quiet) as bar:
        description = f"{options.strategy}, {options.path_text}"
        task = bar.add_task(description, total=options.episodes, picked="", state="")

        def tell(progress: Progress) -> None:
            bar.update(
                task,
                completed=len(progress.episodes),
                picked=_picked(progress.episodes),
                state=state_text(progress.state),
            )

        yield tell


def state_text(state: str) -> str:
    """Return a state's name as rich draws it, as wide as the longest."""
    return f"[{STATE_STYLES.get(state, 'white')}]{state:<12}[/]"


def print_summary(console: Console, summary: Mapping[str, Any], folder: Path) -> None:
    """Print the table at the end of a run."""
    latency = summary["latency_ms"]
    actions = {name: count for name, count in summary["actions_by_source"].items() if count}
    states = ", ".join(f"{entry['state']} {entry['seconds']:.1f} s" for entry in summary["states_visited"])
    table = Table(title="Belt arm demo", show_header=False, title_justify="left")
    picked = f"{summary['successes']} of {summary['episodes']} ({summary['success_rate']:.0%})"
    table.add_row("cubes picked", picked)
    table.add_row("policy", summary["policy"])
    table.add_row("strategy", f"{summary['strategy']} ({STRATEGIES[summary['strategy']].label})")
    table.add_row("injected latency", summary["injected"])
    table.add_row("request cycle", _latency_text(latency))
    table.add_row("control ticks by source", ", ".join(f"{name} {count}" for name, count in actions.items()))
    table.add_row("states", states)
    console.print(table)
    _print_paths(console, folder, ("summary.json", "report.png", "frames.png", "bag"))


def print_learning(console: Console, summary: Mapping[str, Any], folder: Path) -> None:
    """Print the table at the end of a run that learns."""
    table = Table(title="Belt arm demo, learning", show_header=False, title_justify="left")
    for row in as_lines(summary):
        table.add_row(*row)
    console.print(table)
    _print_paths(console, folder, ("learning.json", "learning.png", "bag", "policy"))


def print_sweep(console: Console, cells: Sweep, folder: Path) -> None:
    """Print success by latency and strategy."""
    title = "Cubes picked by injected latency"
    table = Table(title=title, title_justify="left", min_width=len(title))  # one strategy alone is narrower
    table.add_column("latency")
    strategies = [name for name in STRATEGIES if any(key[0] == name for key in cells)]
    for strategy in strategies:
        table.add_column(STRATEGIES[strategy].label, justify="right")
    for latency_ms in sorted({key[1] for key in cells}):
        row = [cells.get((strategy, latency_ms)) for strategy in strategies]
        texts = [
            f"{cell.success_rate:.0%} ({cell.successes}/{cell.episodes})" if cell else "" for cell in row
        ]
        table.add_row(f"{latency_ms:g} ms", *texts)
    console.print(table)
    _print_paths(console, folder, ("sweep.json", "sweep.png"))


def _print_paths(console: Console, folder: Path, names: Sequence[str]) -> None:
    for path in (folder / name for name in names):
        if path.exists():
            console.print(f"  {path}", highlight=False, soft_wrap=True)


def _picked(episodes: Sequence[Episode]) -> str:
    if not episodes:
        return ""
    successes = sum(episode.success for episode in episodes)
    return f"picked {successes} of {len(episodes)}"


def _latency_text(latency: Mapping[str, Any]) -> str:
    if not latency["n"]:
        return "no request was answered"
    return (
        f"p50 {latency['p50']:.1f}, p95 {latency['p95']:.1f}, p99 {latency['p99']:.1f} ms "
        f"({latency['n']} requests)"
    )
