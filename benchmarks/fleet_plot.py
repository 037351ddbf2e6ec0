# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The picture of fleet.py: answers while things die, the way back, and what the formula says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from fleet_play import Capacity, Played
from fleet_robot import RATE_HZ
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

COLOURS = {"TCP": "#0072B2", "TLS": "#D55E00", "virtual": "#6A6A6A"}
STYLES = {"TCP": "-", "TLS": "-", "virtual": "--"}
INK = "#6A6A6A"


def draw(runs: Sequence[Played], capacities: Sequence[Capacity], span_s: float, path: Path) -> None:
    """Draw what `fleet.py` has found. span_s: of each of the three spans of a run."""
    figure = Figure(figsize=(10.5, 3.9), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    answers, back, formula = figure.subplots(1, 3, width_ratios=(1.25, 1.0, 0.9))
    _draw_answers(answers, [run for run in runs if run.robots == runs[0].robots], span_s)
    _draw_way_back(back, runs)
    _draw_formula(formula, capacities)
    for axes in (answers, back, formula):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def _draw_answers(axes: Axes, runs: Sequence[Played], span_s: float) -> None:
    for run in runs:
        share = 100 * np.array(run.answers_per_s) / (RATE_HZ * run.robots)
        axes.plot(
            np.arange(len(share)) + 0.5, share, STYLES[run.kind], color=COLOURS[run.kind], label=run.kind
        )
    for at, what in ((1, "a server dies"), (2, "a router dies")):
        axes.axvline(at * span_s, color=INK, linewidth=1, linestyle=":")
        axes.text(at * span_s, 4, f" {what}", fontsize="small", color=INK)
    axes.set_ylim(0, None)
    axes.set_xlabel("time [s]")
    axes.set_title(f"answers per second of {runs[0].robots} robots [%]", fontsize="medium")
    axes.legend(fontsize="small", loc="center right")


def _draw_way_back(axes: Axes, runs: Sequence[Played]) -> None:
    for run in runs:
        took_s = run.from_server.took_s
        share = 100 * np.arange(len(took_s) + 1) / max(1, run.from_server.robots)
        axes.step(
            [0.0, *took_s],
            share,
            STYLES[run.kind],
            where="post",
            color=COLOURS[run.kind],
            alpha=1.0 if run.robots == runs[0].robots else 0.45,
            label=f"{run.kind}, {run.from_server.robots} of {run.robots}",
        )
    axes.set_ylim(0, 103)
    axes.set_xlim(0, None)
    axes.set_xlabel("after the server's death [s]")
    axes.set_title("its robots with a chunk again [%]", fontsize="medium")
    axes.legend(fontsize="small", loc="lower right")


def _draw_formula(axes: Axes, capacities: Sequence[Capacity]) -> None:
    most = 1.15 * max(max(one.predicted_per_s, one.answered_per_s) for one in capacities)
    line = np.array([0.0, most])
    axes.fill_between(line, 0.9 * line, 1.1 * line, color=INK, alpha=0.15, linewidth=0, label="within 10 %")
    axes.plot(line, line, color=INK, linewidth=1)
    for kind, marker in (("virtual", "o"), ("TCP", "s")):
        found = [one for one in capacities if one.kind == kind]
        axes.plot(
            [one.predicted_per_s for one in found],
            [one.answered_per_s for one in found],
            marker,
            color=COLOURS[kind],
            label=kind,
        )
    axes.set_xlim(0, most)
    axes.set_ylim(0, most)
    axes.set_xlabel("the formula's answers per second")
    axes.set_title("measured, of one server", fontsize="medium")
    axes.legend(fontsize="small", loc="upper left")
