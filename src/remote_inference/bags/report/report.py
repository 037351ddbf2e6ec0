# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One picture of a run: joints commanded and measured, latency, action age, guard and the client's states."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpecFromSubplotSpec, SubplotSpec
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from remote_inference.bags.report import style
from remote_inference.bags.report.run import Episode, draw_run, find_episodes, run_height_in
from remote_inference.bags.report.style import Handle, Windows
from remote_inference.bags.report.summary import summarise
from remote_inference.bags.timeline.robot_bag import Joint
from remote_inference.bags.timeline.timeline import Executed, Timeline, intervals
from remote_inference.base.errors import UserError
from remote_inference.robot.command import CommandSource

COLUMNS = 2
_MAX_MARKED_BOUNDARIES = 150  # in a panel; more would run together
_MARGIN_S = 0.5  # drawn beyond the window, so that lines run to its edges
# Of the lines of commands: by the node alone, by a person through it, in shadow mode.
_LOOKS: Mapping[str, dict[str, Any]] = {
    "commanded": {"color": style.BLUE, "linewidth": 1.0},
    "commanded by a person": {"color": style.PURPLE, "linewidth": 1.4},
    "would be commanded (shadow)": {"color": style.BLUE, "linewidth": 1.0, "linestyle": "--"},
}
_NEAR = 0.15  # share of the range of values within which a limit beyond the range is shown


def joint_rows(timeline: Timeline) -> int:
    return max(1, math.ceil(len(timeline.joints) / COLUMNS))


def draw_joints(
    figure: Figure,
    place: SubplotSpec,
    timeline: Timeline,
    episodes: Sequence[Episode],
    window_s: tuple[float, float],
) -> list[Handle]:
    begin, end = window_s
    executed = timeline.executed
    rows = joint_rows(timeline)
    grid = GridSpecFromSubplotSpec(rows, COLUMNS, place, hspace=0.32, wspace=0.14)
    boundaries = executed.t_s[executed.begins_chunk]
    boundaries = boundaries[(boundaries >= begin) & (boundaries <= end)]
    marked = len(boundaries) <= _MAX_MARKED_BOUNDARIES
    ticks = (executed.t_s >= begin - _MARGIN_S) & (executed.t_s <= end + _MARGIN_S)
    held = intervals(executed.t_s[ticks], ~executed.commanded[ticks], end)
    troubled = [e for e in episodes if e.trouble and e.begin_s < end and e.end_s > begin]
    kinds = _kinds(executed)
    # With the tick after each run of ticks, to which the run's last step is drawn.
    drawn = [(mask | np.concatenate([[False], mask[:-1]]))[ticks] for mask in kinds]
    named = False
    for i, joint in enumerate(timeline.joints):
        axes = figure.add_subplot(grid[i // COLUMNS, i % COLUMNS])
        style.shade(axes, [(e.begin_s, e.end_s - e.begin_s) for e in troubled], style.TROUBLE)
        style.shade(axes, held, style.LIGHT)
        if marked:
            transform = axes.get_xaxis_transform()
            axes.vlines(boundaries, 0, 1, color=style.GREY, linewidth=0.5, alpha=0.7, transform=transform)
        _draw_measured(axes, joint, begin, end)
        for shown, look in zip(drawn, _LOOKS.values(), strict=True):
            values = np.where(shown, executed.action[ticks, i], np.nan)
            axes.step(executed.t_s[ticks], values, where="post", zorder=3, **look)
        axes.set_xlim(begin, end)
        style.style(axes, joint.unit)
        axes.grid(visible=False)
        named |= _draw_limits(axes, joint)
        axes.set_ylim(style.least_range(*axes.get_ylim()))
        _write_above(axes, 0.008, joint.name, fontsize=style.NORMAL, weight="bold")
        if i >= len(timeline.joints) - COLUMNS:
            axes.set_xlabel(style.TIME_LABEL, fontsize=style.NORMAL)
        else:
            axes.tick_params(labelbottom=False)
    if not timeline.joints:
        axes = figure.add_subplot(grid[0, :])
        axes.set_axis_off()
        style.say(axes, "no joint is named in the bag: nothing was commanded, and no joint state recorded")
    seen = [bool((mask & executed.commanded)[ticks].any()) for mask in kinds]
    return _handles(seen, len(boundaries), held=bool(held), troubled=bool(troubled), limits=named)


def _kinds(executed: Executed) -> tuple[NDArray[np.bool_], ...]:
    """Return the ticks [n] of each of _LOOKS."""
    human = executed.source == CommandSource.HUMAN
    return ~human & ~executed.shadow, human & ~executed.shadow, executed.shadow


def _handles(seen: list[bool], boundaries: int, *, held: bool, troubled: bool, limits: bool) -> list[Handle]:
    """Return the legend's entries. seen: which of _LOOKS are in view; without any, the first is shown."""
    marked = boundaries <= _MAX_MARKED_BOUNDARIES
    chunks = "a new chunk begins" if marked else f"{boundaries} chunks begin, too many to mark"
    lines = [Line2D([], [], label=label, **{**look, "linewidth": 1.2}) for label, look in _LOOKS.items()]
    handles: list[tuple[bool, Handle]] = [
        *zip(seen if any(seen) else (True, False, False), lines, strict=True),
        (True, Line2D([], [], color=style.ORANGE, linewidth=2.2, label="measured")),
        (boundaries > 0, Line2D([], [], color=style.GREY, linewidth=0.8 if marked else 0.0, label=chunks)),
        (limits, Line2D([], [], color=style.VERMILLION, linewidth=1.0, linestyle="--", label="limit")),
        (held, Patch(color=style.LIGHT, label="nothing commanded")),
        (troubled, Patch(color=style.TROUBLE, label="episode in trouble, named below")),
    ]
    return [handle for is_shown, handle in handles if is_shown]


def _draw_measured(axes: Axes, joint: Joint, begin: float, end: float) -> None:
    near = (joint.t_s >= begin - _MARGIN_S) & (joint.t_s <= end + _MARGIN_S)
    if near.any():
        axes.plot(joint.t_s[near], joint.value[near], color=style.ORANGE, linewidth=2.2, zorder=2)
        return
    text = "no joint state in this part" if len(joint.t_s) else "no joint state recorded"
    _write_above(axes, 0.995, text, ha="right", fontsize=style.SMALL, color=style.GREY)


def _write_above(axes: Axes, place: float, text: str, **look: Any) -> None:
    """Write above a panel. place: share of its width."""
    axes.text(place, 1.02, text, transform=axes.transAxes, va="bottom", **look)


def _draw_limits(axes: Axes, joint: Joint) -> bool:
    """Draw and name the limits in view; return whether there are any."""
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.lines] or [np.empty(0)])
    values = values[np.isfinite(values)]
    if joint.limit is None or not len(values):
        return False
    low, high = style.least_range(float(values.min()), float(values.max()))
    near = _NEAR * (high - low)
    ends = {"min": joint.limit.min, "max": joint.limit.max}
    shown = {name: limit for name, limit in ends.items() if low - near <= limit <= high + near}
    for name, limit in shown.items():
        axes.axhline(limit, color=style.VERMILLION, linewidth=1.0, linestyle="--", zorder=3.5)
        above = name == "min"  # inside the permitted range, where there is room
        axes.annotate(
            f"{name} {limit:g}",
            (1.0, limit),
            xycoords=axes.get_yaxis_transform(),
            xytext=(-2, 2 if above else -2),
            textcoords="offset points",
            ha="right",
            va="bottom" if above else "top",
            fontsize=style.SMALL,
            color=style.VERMILLION,
            zorder=4,
            bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.6},
        )
    return bool(shown)


DEFAULT_WINDOW_S = 20.0  # of the joint panels
_MAX_BOUNDARIES = 40  # the default window is shortened until no more chunk boundaries than these are in it
_LEAD_IN_S = 0.3  # shown before the first command
_WIDTH_IN = 15.0
_LEFT, _RIGHT = 0.08, 0.975  # edges of the panels, as shares of the width
_HEADER_IN, _JOINT_ROW_IN, _BETWEEN_IN, _FOOTER_IN = 1.15, 1.5, 0.9, 0.5
_LINE_IN = 0.17  # of the numbers under the title
_TITLE_CHARACTERS, _LINE_CHARACTERS = 110, 170


class ReportError(UserError):
    """A report cannot be drawn; the message names the file or the window, and the problem."""


def draw_report(
    timeline: Timeline,
    path: Path,
    title: str,
    window_s: tuple[float, float] | None = None,
    outcomes: Mapping[int, bool] | None = None,
) -> None:
    """Draw a run to a picture in the format of the name's ending.

    Every panel shows `window_s` (begin, end) [s] of the bag. Without a window, the lower panels show the
    whole run and the joint panels up to 20 s from the first command on, less when there are too many chunks
    to see their boundaries. `outcomes` says by episode_id which episodes succeeded.

    Raises ReportError when nothing of the run is in the window, or the picture cannot be written.
    """
    if window_s is None:
        shown = (0.0, max(timeline.duration_s, 1e-3))
        joints = default_window(timeline)
        excerpt = joints if joints[1] - joints[0] < 0.95 * timeline.duration_s else None
    else:
        begin, end = window_s
        shown = joints = (max(begin, 0.0), min(end, timeline.duration_s))
        excerpt = None
        if shown[0] >= shown[1]:
            found = f"{begin:g} s and later" if math.isinf(end) else f"{begin:g} to {end:g} s"
            raise ReportError(f"window: found {found}, expected a part of 0 to {timeline.duration_s:.1f} s")
    figure = _draw(timeline, title, Windows(shown, joints, excerpt), outcomes)
    try:
        style.save(figure, path)
    except OSError as error:
        raise ReportError(f"{path}: cannot be written: {error.strerror or error}") from error
    except ValueError as error:  # matplotlib's own words say which formats it knows
        raise ReportError(f"{path}: {error}") from error


def default_window(timeline: Timeline) -> tuple[float, float]:
    """Return the (begin, end) [s] that the joint panels show by default."""
    commanded = timeline.executed.t_s[timeline.executed.commanded]
    first = float(commanded[0]) if len(commanded) else 0.0
    begin = max(0.0, first - _LEAD_IN_S)
    end = min(begin + DEFAULT_WINDOW_S, timeline.duration_s)
    boundaries = timeline.executed.t_s[timeline.executed.begins_chunk]
    boundaries = boundaries[boundaries >= begin]
    if len(boundaries) > _MAX_BOUNDARIES:
        end = min(end, float(boundaries[_MAX_BOUNDARIES]))
    return begin, max(end, begin + 1e-3)


def _draw(timeline: Timeline, title: str, windows: Windows, outcomes: Mapping[int, bool] | None) -> Figure:
    joints_in, run_in = joint_rows(timeline) * _JOINT_ROW_IN, run_height_in(timeline)
    text = _wrap(_headline(timeline))
    header_in = _HEADER_IN + len(text) * _LINE_IN
    height = header_in + joints_in + _BETWEEN_IN + run_in + _FOOTER_IN
    figure = Figure(figsize=(_WIDTH_IN, height), dpi=style.DPI, facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        2,
        1,
        height_ratios=(joints_in, run_in),
        left=_LEFT,
        right=_RIGHT,
        top=1 - header_in / height,
        bottom=_FOOTER_IN / height,
        hspace=_BETWEEN_IN / ((joints_in + run_in) / 2),
    )
    episodes = find_episodes(timeline, outcomes)
    handles = draw_joints(figure, grid[0], timeline, episodes, windows.joints_s)
    draw_run(figure, grid[1], timeline, episodes, windows)
    figure.suptitle(
        textwrap.shorten(title, _TITLE_CHARACTERS, placeholder=" ..."),
        x=_LEFT,
        y=1 - 0.15 / height,
        ha="left",
        va="top",
        fontsize=style.TITLE,
        weight="bold",
    )
    figure.text(_LEFT, 1 - 0.47 / height, "\n".join(text), va="top", fontsize=style.NORMAL, color="#444444")
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(_LEFT, 1 - (header_in - 0.52) / height),
        ncols=len(handles),
        frameon=False,
        fontsize=style.NORMAL,
        borderaxespad=0.0,
        borderpad=0.0,
    )
    return figure


def _wrap(parts: list[str]) -> list[str]:
    lines = [parts[0]]
    for part in parts[1:]:
        longer = f"{lines[-1]}   |   {part}"
        if len(longer) <= _LINE_CHARACTERS:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def _headline(timeline: Timeline) -> list[str]:
    numbers = summarise(timeline)
    latency = numbers["latency_ms"]
    parts = [
        f"{timeline.namespace}, {timeline.duration_s:.1f} s",
        f"{numbers['requests']} requests, {numbers['requests_unanswered']} unanswered",
    ]
    if latency["n"]:
        parts.append("latency p50 {p50:.0f}, p95 {p95:.0f}, p99 {p99:.0f} ms".format_map(latency))
    parts.append(f"{numbers['seams']['count']} seams, {numbers['behind_plan_s']:.2f} s behind the plan")
    if not any(joint.unit for joint in timeline.joints):
        parts.append("no contract: units and limits are unknown")
    return parts
