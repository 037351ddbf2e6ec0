# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The upper half of a report: one panel per joint, commanded and measured, with its limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpecFromSubplotSpec, SubplotSpec
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from remote_inference.core.robot.command import CommandSource
from remote_inference.recording.report.style import (
    BLUE,
    GREY,
    LIGHT,
    NORMAL,
    ORANGE,
    PURPLE,
    SMALL,
    TIME_LABEL,
    TROUBLE,
    VERMILLION,
    Handle,
    least_range,
    say,
    shade,
    style,
)
from remote_inference.recording.timeline.episodes import Episode
from remote_inference.recording.timeline.joints import Joint
from remote_inference.recording.timeline.timeline import Executed, Timeline, intervals

COLUMNS = 2
_MAX_MARKED_BOUNDARIES = 150  # in a panel; more would run together
_MARGIN_S = 0.5  # drawn beyond the window, so that lines run to its edges
# Of the lines of commands: by the node alone, by a person through it, in shadow mode.
_LABELS = ("commanded", "commanded by a person", "would be commanded (shadow)")
_LOOKS: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "linewidth": 1.0},
    {"color": PURPLE, "linewidth": 1.4},
    {"color": BLUE, "linewidth": 1.0, "linestyle": "--"},
)
_NEAR = 0.15  # share of the range of values within which a limit beyond the range is shown


def joint_rows(timeline: Timeline) -> int:
    """Return how many rows of panels the joints fill."""
    return max(1, math.ceil(len(timeline.joints) / COLUMNS))


def draw_joints(
    figure: Figure,
    place: SubplotSpec,
    timeline: Timeline,
    episodes: Sequence[Episode],
    window_s: tuple[float, float],
) -> list[Handle]:
    """Draw a panel per joint; return the entries of their legend."""
    begin, end = window_s
    executed = timeline.executed
    rows = joint_rows(timeline)
    grid = GridSpecFromSubplotSpec(rows, COLUMNS, place, hspace=0.32, wspace=0.14)
    boundaries = executed.boundaries_s()
    boundaries = boundaries[(boundaries >= begin) & (boundaries <= end)]
    marked = len(boundaries) <= _MAX_MARKED_BOUNDARIES
    ticks = (executed.t_s >= begin - _MARGIN_S) & (executed.t_s <= end + _MARGIN_S)
    held = intervals(executed.t_s[ticks], ~executed.commanded[ticks], end)
    troubled = [e for e in episodes if e.trouble and e.begin_s < end and e.end_s > begin]
    named = False
    for i, joint in enumerate(timeline.joints):
        axes = figure.add_subplot(grid[i // COLUMNS, i % COLUMNS])
        shade(axes, [(e.begin_s, e.end_s - e.begin_s) for e in troubled], TROUBLE)
        shade(axes, held, LIGHT)
        if marked:
            axes.vlines(
                boundaries, 0, 1, color=GREY, linewidth=0.5, alpha=0.7, transform=axes.get_xaxis_transform()
            )
        _draw_measured(axes, joint, begin, end)
        for mask, look in zip(_kinds(executed), _LOOKS, strict=True):
            shown = _until_next(mask)[ticks]
            values = np.where(shown, executed.action[ticks, i], np.nan)
            axes.step(executed.t_s[ticks], values, where="post", zorder=3, **look)
        axes.set_xlim(begin, end)
        style(axes, joint.unit)
        axes.grid(visible=False)
        named |= _draw_limits(axes, joint)
        axes.set_ylim(least_range(*axes.get_ylim()))
        axes.text(
            0.008, 1.02, joint.name, transform=axes.transAxes, va="bottom", fontsize=NORMAL, weight="bold"
        )
        if i >= len(timeline.joints) - COLUMNS:
            axes.set_xlabel(TIME_LABEL, fontsize=NORMAL)
        else:
            axes.tick_params(labelbottom=False)
    if not timeline.joints:
        axes = figure.add_subplot(grid[0, :])
        axes.set_axis_off()
        say(axes, "no joint is named in the bag: nothing was commanded, and no joint state recorded")
    kinds = [bool((mask & executed.commanded)[ticks].any()) for mask in _kinds(executed)]
    return [*_lines(kinds), *_handles(len(boundaries), marked, bool(held), bool(troubled), named)]


def _kinds(executed: Executed) -> tuple[NDArray[np.bool_], ...]:
    """Return the ticks [n] of each of _LOOKS."""
    human = executed.source == CommandSource.HUMAN
    return ~human & ~executed.shadow, human & ~executed.shadow, executed.shadow


def _until_next(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the mask with the sample after each run, to which the run's last step is drawn."""
    return np.asarray(mask | np.concatenate([[False], mask[:-1]]), bool)


def _lines(kinds: Sequence[bool]) -> list[Handle]:
    """Return the entries of the lines: of the kinds of commands in view, and of the measurements."""
    seen = kinds if any(kinds) else (True, False, False)
    lines: list[Handle] = [
        Line2D([], [], label=label, **{**look, "linewidth": 1.2})
        for is_seen, label, look in zip(seen, _LABELS, _LOOKS, strict=True)
        if is_seen
    ]
    return [*lines, Line2D([], [], color=ORANGE, linewidth=2.2, label="measured")]


def _handles(boundaries: int, marked: bool, held: bool, troubled: bool, limits: bool) -> list[Handle]:
    chunks = "a new chunk begins" if marked else f"{boundaries} chunks begin, too many to mark"
    handles: list[Handle] = []
    if boundaries:
        handles.append(Line2D([], [], color=GREY, linewidth=0.8 if marked else 0.0, label=chunks))
    if limits:
        handles.append(Line2D([], [], color=VERMILLION, linewidth=1.0, linestyle="--", label="limit"))
    if held:
        handles.append(Patch(color=LIGHT, label="nothing commanded"))
    if troubled:
        handles.append(Patch(color=TROUBLE, label="episode in trouble, named below"))
    return handles


def _draw_measured(axes: Axes, joint: Joint, begin: float, end: float) -> None:
    near = (joint.t_s >= begin - _MARGIN_S) & (joint.t_s <= end + _MARGIN_S)
    if near.any():
        axes.plot(joint.t_s[near], joint.value[near], color=ORANGE, linewidth=2.2, zorder=2)
        return
    text = "no joint state in this part" if len(joint.t_s) else "no joint state recorded"
    axes.text(
        0.995, 1.02, text, transform=axes.transAxes, ha="right", va="bottom", fontsize=SMALL, color=GREY
    )


def _draw_limits(axes: Axes, joint: Joint) -> bool:
    """Draw and name the limits in view; return whether there are any."""
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.lines] or [np.empty(0)])
    values = values[np.isfinite(values)]
    if joint.limit is None or not len(values):
        return False
    low, high = least_range(float(values.min()), float(values.max()))
    near = _NEAR * (high - low)
    shown = {
        name: limit
        for name, limit in (("min", joint.limit.min), ("max", joint.limit.max))
        if low - near <= limit <= high + near
    }
    for name, limit in shown.items():
        axes.axhline(limit, color=VERMILLION, linewidth=1.0, linestyle="--", zorder=3.5)
        above = name == "min"  # inside the permitted range, where there is room
        axes.annotate(
            f"{name} {limit:g}",
            (1.0, limit),
            xycoords=axes.get_yaxis_transform(),
            xytext=(-2, 2 if above else -2),
            textcoords="offset points",
            ha="right",
            va="bottom" if above else "top",
            fontsize=SMALL,
            color=VERMILLION,
            zorder=4,
            bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.6},
        )
    return bool(shown)
