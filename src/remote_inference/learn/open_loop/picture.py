# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One picture of a comparison: predicted and executed actions, and the error by position in the chunk."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from remote_inference.bags.report.style import (
    COLOURS,
    DPI,
    LEAST_ERROR,
    NORMAL,
    TITLE,
    Handle,
    least_range,
    save,
    say,
    style,
)
from remote_inference.learn.open_loop.evaluation import Evaluation, ReplayError

MOST_CHUNKS = 60  # of a policy in a panel; more would hide each other
_WIDTH_IN, _ROW_IN, _HEAD_IN, _FOOT_IN = 15.0, 1.7, 1.1, 0.6
_TITLE_CHARACTERS = 110
_MARGIN_S = 1.0  # of predictions after the last executed action


def require_drawable(path: Path) -> None:
    """Raise ReplayError when no picture can be written there: better now than after an hour of requests."""
    if not path.absolute().parent.is_dir():
        raise ReplayError(f"--out: {path.absolute().parent} is no folder, expected one for {path.name}")
    known = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix[1:] not in known:
        expected = ", ".join(f".{name}" for name in sorted(known))
        raise ReplayError(f"--out: found {path.name}, expected a name that ends in one of {expected}")


def draw(evaluations: Sequence[Evaluation], path: Path, title: str) -> None:
    """Draw the comparison to a picture in the format of the name's ending. Raises ReplayError."""
    names = evaluations[0].excerpt.names
    height = _HEAD_IN + len(names) * _ROW_IN + _FOOT_IN
    figure = Figure(figsize=(_WIDTH_IN, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    panels = figure.subplots(
        len(names), 2, squeeze=False, sharex="col", gridspec_kw={"width_ratios": (2.2, 1.0)}
    )
    figure.subplots_adjust(
        left=0.07, right=0.98, top=1 - _HEAD_IN / height, bottom=_FOOT_IN / height, hspace=0.25, wspace=0.14
    )
    for joint, (left, right) in enumerate(panels):
        _draw_actions(left, evaluations, joint)
        _draw_errors(right, evaluations, joint)
    panels[-1][0].set_xlabel("time since the first executed action [s]", fontsize=NORMAL)
    panels[-1][1].set_xlabel("time since the observation [s]", fontsize=NORMAL)
    panels[0][1].set_title("mean absolute error by row of the chunk", fontsize=NORMAL, loc="left")
    shown = textwrap.shorten(title, _TITLE_CHARACTERS, placeholder=" ...")
    figure.suptitle(shown, x=0.07, y=1 - 0.15 / height, ha="left", va="top", fontsize=TITLE, weight="bold")
    figure.legend(
        handles=_handles(evaluations),
        loc="upper left",
        bbox_to_anchor=(0.065, 1 - 0.45 / height),
        ncols=4,
        frameon=False,
        fontsize=NORMAL,
    )
    try:
        save(figure, path)
    except OSError as error:
        raise ReplayError(f"{path}: cannot be written: {error.strerror or error}") from error


def _draw_actions(axes: Axes, evaluations: Sequence[Evaluation], joint: int) -> None:
    excerpt = evaluations[0].excerpt
    style(axes, excerpt.units[joint])
    axes.set_title(excerpt.names[joint], fontsize=NORMAL, weight="bold", loc="left")
    for evaluation, colour in zip(evaluations, COLOURS, strict=False):
        shown = evaluation.excerpt
        every = max(1, len(shown.chunks) // MOST_CHUNKS)
        for begin, rows in shown.chunks[::every]:
            t_s = (np.arange(len(rows)) + begin - (excerpt.first or 0)) * excerpt.period_s
            axes.plot(t_s, rows[:, joint], color=colour, linewidth=0.7, alpha=0.6)
    if not excerpt.executed:
        say(axes, "no executed action in the bag")
        return
    ticks = range(min(excerpt.executed), max(excerpt.executed) + 1)
    values = [excerpt.executed[t][joint] if t in excerpt.executed else np.nan for t in ticks]
    axes.plot(
        (np.array(ticks) - (excerpt.first or 0)) * excerpt.period_s, values, color="black", linewidth=1.4
    )
    axes.set_xlim(0.0, (max(excerpt.executed) - (excerpt.first or 0)) * excerpt.period_s + _MARGIN_S)
    axes.set_ylim(least_range(*axes.get_ylim()))


def _draw_errors(axes: Axes, evaluations: Sequence[Evaluation], joint: int) -> None:
    excerpt = evaluations[0].excerpt
    style(axes, excerpt.units[joint])
    for evaluation, colour in zip(evaluations, COLOURS, strict=False):
        for sums, line in ((evaluation.executed, "-"), (evaluation.recorded, ":")):
            if joints := sums.by_joint():
                errors = joints[joint].mean_abs_by_row
                axes.plot(np.arange(len(errors)) * excerpt.period_s, errors, line, color=colour)
    axes.set_ylim(0.0, max(axes.get_ylim()[1], LEAST_ERROR))


def _handles(evaluations: Sequence[Evaluation]) -> list[Handle]:
    lines: list[Handle] = [Line2D([], [], color="black", label="executed")]
    lines += [
        Line2D([], [], color=colour, label=f"{one.policy.name} {one.policy.revision} ({one.policy.source})")
        for one, colour in zip(evaluations, COLOURS, strict=False)
    ]
    lines.append(Line2D([], [], color="grey", linestyle="-", label="error from the executed actions"))
    lines.append(Line2D([], [], color="grey", linestyle=":", label="error from the recorded chunks"))
    return lines
