# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The sweep: success by latency and strategy, with real nodes in real time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from remote_inference.learn.environments.belt_arm.strategies import STRATEGIES
from remote_inference.learn.evaluation.reports.statistics import find_wilson_interval

LATENCIES_MS = (0.0, 300.0, 450.0, 600.0, 800.0, 1000.0)
# Colour and marker of each strategy.
_STYLES = (("#0072B2", "s"), ("#E69F00", "^"), ("#CC79A7", "v"), ("#56B4E9", "D"), ("#009E73", "o"))


@dataclass(frozen=True)
class Cell:
    """The result of one combination."""

    strategy: str
    latency_ms: float
    successes: int
    episodes: int

    @property
    def success_rate(self) -> float:
        return self.successes / self.episodes

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson interval of the success rate."""
        return find_wilson_interval(self.successes, self.episodes)


Sweep = Mapping[tuple[str, float], Cell]


def as_rows(cells: Sweep) -> list[dict[str, Any]]:
    """Return the content of sweep.json."""
    return [
        {
            "strategy": cell.strategy,
            "latency_ms": cell.latency_ms,
            "successes": cell.successes,
            "episodes": cell.episodes,
            "success_rate": cell.success_rate,
            "interval": list(cell.interval),
        }
        for cell in cells.values()
    ]


def write_sweep(cells: Sweep, folder: Path) -> None:
    """Write sweep.json and sweep.png."""
    text = json.dumps(as_rows(cells), indent=2)
    (folder / "sweep.json").write_text(text + "\n", encoding="utf-8")
    _draw(cells, folder / "sweep.png")


def _draw(cells: Sweep, path: Path) -> None:
    episodes = max(cell.episodes for cell in cells.values())
    figure = Figure(figsize=(7.5, 4.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for (name, strategy), (colour, marker) in zip(STRATEGIES.items(), _STYLES, strict=True):
        row = sorted(
            (cell for cell in cells.values() if cell.strategy == name), key=lambda cell: cell.latency_ms
        )
        if row:
            below, above = zip(*(_distances(cell) for cell in row), strict=True)
            axes.errorbar(
                [cell.latency_ms for cell in row],
                [100.0 * cell.success_rate for cell in row],
                yerr=(below, above),
                label=strategy.label,
                color=colour,
                marker=marker,
                linewidth=2,
                elinewidth=1,
                capsize=3,
            )
    axes.set_xlabel("injected latency [ms]")
    axes.set_ylabel(f"cubes picked [%], n = {episodes} each")
    axes.set_ylim(-4, 104)
    axes.set_title("A cube on a 6 cm/s belt: success by latency, with 95 % intervals")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path)


def _distances(cell: Cell) -> tuple[float, float]:
    """Return how far the interval reaches below and above the success rate [%]."""
    low, high = cell.interval
    return 100.0 * max(0.0, cell.success_rate - low), 100.0 * max(0.0, high - cell.success_rate)
