# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The picture of capacity.py: answers per second and queue wait against the number of sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter

COLOURS = {"hold": "#0072B2", "belt_arm": "#D55E00"}
STYLES = {"round_robin": "-", "micro_batch": "--"}
MARKERS = {"round_robin": "o", "micro_batch": "^"}
INK = "#6A6A6A"


def draw(content: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    """Draw capacity.json. The answered rates are drawn against the line of requested rates."""
    figure = Figure(figsize=(9.5, 4.4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    rates, waits = figure.subplots(1, 2)
    points = content["points"]
    curves = list(dict.fromkeys((point["policy"], point["scheduler"]) for point in points))
    for policy, scheduler in curves:
        curve = [point for point in points if (point["policy"], point["scheduler"]) == (policy, scheduler)]
        style = {
            "color": COLOURS[policy],
            "linestyle": STYLES[scheduler],
            "marker": MARKERS[scheduler],
            "markersize": 5,
        }
        sessions = [point["sessions"] for point in curve]
        label = f"{policy}, {scheduler}"
        rates.plot(sessions, [point["answered_per_s"] for point in curve], label=label, **style)
        waits.plot(sessions, [point["queue_wait_p50_ms"] for point in curve], label=f"{label}, p50", **style)
        waits.plot(sessions, [point["queue_wait_p99_ms"] for point in curve], alpha=0.4, **style)
    asked = sorted({(point["sessions"], point["asked_per_s"]) for point in points})
    most = 1.2 * max(point["answered_per_s"] for point in points)
    rates.plot(*zip(*asked, strict=True), color=INK, linestyle=":", label="asked")
    rates.set_ylim(0, most)
    rates.set_title("answers per second")
    _mark_formula(rates, content["formulas"])
    waits.set_yscale("log")
    waits.set_title("queue wait [ms], p99 in pale")
    sessions = sorted({point["sessions"] for point in points})
    _dress(rates, [count for count in sessions if count in {1, sessions[-1]} or count >= sessions[-1] / 8])
    waits.set_xscale("log", base=2)
    _dress(waits, sessions)
    figure.savefig(path)


def _mark_formula(axes: Axes, formulas: Sequence[Mapping[str, Any]]) -> None:
    """Draw the capacity by the served inference time, once for each policy."""
    for formula in {formula["policy"]: formula for formula in reversed(formulas)}.values():
        axes.axvline(
            formula["by_served"],
            color=COLOURS[formula["policy"]],
            linewidth=1,
            linestyle="-.",
            label=f"{formula['policy']}, formula: {formula['by_served']}",
        )


def _dress(axes: Axes, sessions: Sequence[int]) -> None:
    axes.set_xticks(sessions)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("sessions")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="upper left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
