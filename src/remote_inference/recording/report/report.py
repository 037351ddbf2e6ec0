# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One picture of a run: joints commanded and measured, latency, action age, guard and the client's states."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from remote_inference.errors import UserError
from remote_inference.recording.report.joints import draw_joints, joint_rows
from remote_inference.recording.report.run import draw_run, run_height_in
from remote_inference.recording.report.style import DPI, NORMAL, TITLE, Windows, save
from remote_inference.recording.report.summary import UNKNOWN_UNIT, summarise
from remote_inference.recording.timeline.episodes import find_episodes
from remote_inference.recording.timeline.timeline import Timeline

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
        save(figure, path)
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
    boundaries = timeline.executed.boundaries_s()
    boundaries = boundaries[boundaries >= begin]
    if len(boundaries) > _MAX_BOUNDARIES:
        end = min(end, float(boundaries[_MAX_BOUNDARIES]))
    return begin, max(end, begin + 1e-3)


def _draw(timeline: Timeline, title: str, windows: Windows, outcomes: Mapping[int, bool] | None) -> Figure:
    joints_in, run_in = joint_rows(timeline) * _JOINT_ROW_IN, run_height_in(timeline)
    text = _wrap(_headline(timeline))
    header_in = _HEADER_IN + len(text) * _LINE_IN
    height = header_in + joints_in + _BETWEEN_IN + run_in + _FOOTER_IN
    figure = Figure(figsize=(_WIDTH_IN, height), dpi=DPI, facecolor="white")
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
        fontsize=TITLE,
        weight="bold",
    )
    figure.text(_LEFT, 1 - 0.47 / height, "\n".join(text), va="top", fontsize=NORMAL, color="#444444")
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(_LEFT, 1 - (header_in - 0.52) / height),
        ncols=len(handles),
        frameon=False,
        fontsize=NORMAL,
        borderaxespad=0.0,
        borderpad=0.0,
    )
    return figure


def _wrap(parts: list[str]) -> list[str]:
    """Return the lines in which the parts fit."""
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
    at, within = (_medians(numbers["seams"][name]) for name in ("at_boundaries", "within_chunks"))
    if at and within:
        parts.append(f"median joint step {at} at chunk boundaries, {within} within chunks")
    if not any(joint.unit for joint in timeline.joints):
        parts.append("no contract: units and limits are unknown")
    return parts


def _medians(steps: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{numbers['median']:.4f}{'' if unit == UNKNOWN_UNIT else f' {unit}'}"
        for unit, numbers in steps.items()
        if numbers["n"]
    )
