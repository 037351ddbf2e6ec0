# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One picture of a run: joints commanded and measured, latency, action age and the client's states."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpecFromSubplotSpec, SubplotSpec
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from remote_inference.recording.summary import summarise
from remote_inference.recording.timeline import FloatArray, Timeline

# Okabe and Ito's palette: told apart by colour-blind readers.
_BLUE, _ORANGE, _GREEN, _SKY, _VERMILLION = "#0072B2", "#E69F00", "#009E73", "#56B4E9", "#D55E00"
_GREY, _LIGHT, _PALE = "#8A8A8A", "#E4E4E4", "#F1F1F1"
STATE_COLOURS = {
    "CONNECTING": _SKY,
    "STREAMING": _GREEN,
    "DEGRADED": "#F0E442",
    "STALLED": _ORANGE,
    "RECONNECTING": "#CC79A7",
    "DEAD": "#000000",
}

DEFAULT_WINDOW_S = 20.0  # of the joint panels
_MAX_BOUNDARIES = 40  # the default window is shortened until no more chunk boundaries than these are in it
_LEAD_IN_S = 0.3  # shown before the first command
_FONT = {"family": "DejaVu Sans", "small": 8.0, "normal": 9.0, "title": 14.0}
_COLUMNS = 2  # of joint panels
_JOINT_ROW_IN, _RUN_ROW_IN, _WIDTH_IN, _DPI = 1.5, 5.4, 15.0, 110


def draw_report(
    timeline: Timeline, path: Path, title: str, window_s: tuple[float, float] | None = None
) -> None:
    """Draw a run to a PNG file.

    The joint panels show `window_s` (begin, end) [s] of the bag; by default up to 20 s from the first command
    on, less when so many chunks are in there that their boundaries could not be told apart. The panels below
    show the whole run.
    """
    begin, end = window_s or default_window(timeline)
    rows = max(1, math.ceil(len(timeline.joint_names) / _COLUMNS))
    height = 1.6 + rows * _JOINT_ROW_IN + _RUN_ROW_IN
    figure = Figure(figsize=(_WIDTH_IN, height), dpi=_DPI, facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        2,
        1,
        height_ratios=(rows * _JOINT_ROW_IN, _RUN_ROW_IN),
        left=0.055,
        right=0.985,
        top=1 - 1.0 / height,
        bottom=0.5 / height,
        hspace=0.9 / (rows * _JOINT_ROW_IN + _RUN_ROW_IN) * 2,
    )
    figure.suptitle(
        title, x=0.055, y=1 - 0.15 / height, ha="left", va="top", fontsize=_FONT["title"], weight="bold"
    )
    figure.text(
        0.055, 1 - 0.47 / height, _headline(timeline), va="top", fontsize=_FONT["normal"], color="#444444"
    )
    _draw_joints(figure, grid[0], timeline, begin, end)
    _draw_run(figure, grid[1], timeline, begin, end)
    figure.savefig(path)


def default_window(timeline: Timeline) -> tuple[float, float]:
    """Return the (begin, end) [s] that the joint panels show unless told otherwise."""
    commanded = timeline.executed.t_s[timeline.executed.commanded]
    first = float(commanded[0]) if len(commanded) else 0.0
    begin = max(0.0, first - _LEAD_IN_S)
    end = min(begin + DEFAULT_WINDOW_S, timeline.duration_s)
    boundaries = timeline.executed.boundaries_s()
    boundaries = boundaries[boundaries >= begin]
    if len(boundaries) > _MAX_BOUNDARIES:
        end = min(end, float(boundaries[_MAX_BOUNDARIES]))
    return begin, max(end, begin + 1e-3)


def _headline(timeline: Timeline) -> str:
    numbers = summarise(timeline)
    latency, seams = numbers["latency_ms"], numbers["seams"]
    parts = [
        f"{timeline.namespace}, {timeline.duration_s:.1f} s",
        f"{numbers['requests']} requests, {numbers['requests_unanswered']} unanswered",
    ]
    if latency["n"]:
        parts.append("latency p50 {p50:.0f}, p95 {p95:.0f}, p99 {p99:.0f} ms".format_map(latency))
    if seams["at_boundaries_rad"]["n"] and seams["within_chunks_rad"]["n"]:
        parts.append(
            f"median joint step {seams['at_boundaries_rad']['median']:.4f} rad at chunk boundaries, "
            f"{seams['within_chunks_rad']['median']:.4f} within chunks"
        )
    return "   |   ".join(parts)


def _style(axes: Axes, ylabel: str) -> None:
    axes.set_ylabel(ylabel, fontsize=_FONT["normal"])
    axes.tick_params(labelsize=_FONT["small"], length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=_LIGHT, linewidth=0.6)
    axes.set_axisbelow(True)


def _intervals(t_s: FloatArray, inside: np.ndarray, end_s: float) -> list[tuple[float, float]]:
    """Return (begin, duration) of each run of samples that are inside; a sample holds until the next one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(int)))
    until = np.append(t_s, max(end_s, t_s[-1] if len(t_s) else 0.0))
    return [(float(t_s[a]), float(until[b] - t_s[a])) for a, b in edges.reshape(-1, 2)]


def _draw_joints(figure: Figure, place: SubplotSpec, timeline: Timeline, begin: float, end: float) -> None:
    names, executed, joints = timeline.joint_names, timeline.executed, timeline.joints
    rows = max(1, math.ceil(len(names) / _COLUMNS))
    grid = GridSpecFromSubplotSpec(rows, _COLUMNS, place, hspace=0.28, wspace=0.11)
    margin = 0.5  # [s] drawn beyond the window, so that lines run to its edges
    ticks = (executed.t_s >= begin - margin) & (executed.t_s <= end + margin)
    measured = (joints.t_s >= begin - margin) & (joints.t_s <= end + margin)
    boundaries = executed.boundaries_s()
    boundaries = boundaries[(boundaries >= begin) & (boundaries <= end)]
    held = _intervals(executed.t_s[ticks], ~executed.commanded[ticks], end)
    for i, name in enumerate(names):
        axes = figure.add_subplot(grid[i // _COLUMNS, i % _COLUMNS])
        for start, duration in held:
            axes.axvspan(start, start + duration, color=_LIGHT, linewidth=0, zorder=0)
        for boundary in boundaries:
            axes.axvline(boundary, color=_GREY, linewidth=0.5, alpha=0.7, zorder=1)
        axes.plot(joints.t_s[measured], joints.position[measured, i], color=_ORANGE, linewidth=2.2, zorder=2)
        axes.step(
            executed.t_s[ticks], executed.action[ticks, i], where="post", color=_BLUE, linewidth=1.0, zorder=3
        )
        axes.set_xlim(begin, end)
        _style(axes, "rad")
        axes.grid(visible=False)
        axes.text(
            0.008, 1.02, name, transform=axes.transAxes, va="bottom", fontsize=_FONT["normal"], weight="bold"
        )
        if i >= len(names) - _COLUMNS:
            axes.set_xlabel("time since start of the bag [s]", fontsize=_FONT["normal"])
        else:
            axes.tick_params(labelbottom=False)
    figure.legend(
        handles=[
            Line2D([], [], color=_BLUE, linewidth=1.2, label="commanded"),
            Line2D([], [], color=_ORANGE, linewidth=2.2, label="measured"),
            Line2D([], [], color=_GREY, linewidth=0.8, label="a new chunk begins"),
            Patch(color=_LIGHT, label="nothing commanded"),
        ],
        loc="upper right",
        bbox_to_anchor=(0.99, 1 - 0.1 / figure.get_size_inches()[1]),
        ncols=4,
        frameon=False,
        fontsize=_FONT["normal"],
    )


def _draw_run(figure: Figure, place: SubplotSpec, timeline: Timeline, begin: float, end: float) -> None:
    grid = GridSpecFromSubplotSpec(3, 1, place, height_ratios=(2.2, 1.6, 0.9), hspace=0.42)
    latency = figure.add_subplot(grid[0])
    age = figure.add_subplot(grid[1], sharex=latency)
    states = figure.add_subplot(grid[2], sharex=latency)
    excerpt = end - begin < 0.95 * timeline.duration_s
    _draw_latency(latency, timeline, [Patch(color=_PALE, label="shown above")] if excerpt else [])
    _draw_age(age, timeline)
    _draw_states(states, timeline)
    latency.set_xlim(0, max(timeline.duration_s, 1e-3))
    for axes in (latency, age):
        axes.tick_params(labelbottom=False)
        if excerpt:
            axes.axvspan(begin, end, color=_PALE, linewidth=0, zorder=0)
    states.set_xlabel("time since start of the bag [s]", fontsize=_FONT["normal"])


def _legend(axes: Axes, handles: list[Line2D | Patch]) -> None:
    axes.legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1.005, 0.98),
        ncols=len(handles),
        frameon=False,
        fontsize=_FONT["small"],
        handlelength=1.4,
        columnspacing=1.4,
    )


def _heading(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=_FONT["normal"], weight="bold", pad=4)


def _draw_latency(axes: Axes, timeline: Timeline, handles: list[Line2D | Patch]) -> None:
    cycles, requests = timeline.cycles, timeline.requests
    order = np.argsort(cycles.t_s)
    t_s = cycles.t_s[order]
    parts = (
        ("inference", _GREEN, cycles.inference_ms[order]),
        ("queue", _ORANGE, cycles.queue_wait_ms[order]),
        ("network and nodes", _SKY, cycles.network_ms[order]),
    )
    heading = "Request cycle latency"
    floor = np.zeros(len(t_s))
    for label, colour, values in parts:
        axes.bar(
            t_s, values, _bar_width(t_s), floor, align="center", color=colour, edgecolor=colour, linewidth=0.4
        )
        floor = floor + values
        handles.append(Patch(color=colour, label=label))
    if len(floor):
        top = max(1.0, min(float(floor.max()) * 1.1, float(np.percentile(floor, 99)) * 1.6))
        axes.set_ylim(0, top)
        if beyond := int((floor > top).sum()):
            heading += f" ({beyond} beyond the panel, up to {floor.max():.0f} ms)"
    lost = requests.t_s[~requests.answered]
    if len(lost):
        axes.plot(
            lost,
            np.full(len(lost), 0.04),
            "x",
            color=_VERMILLION,
            markersize=6,
            markeredgewidth=1.6,
            transform=axes.get_xaxis_transform(),
        )
        handles.append(
            Line2D([], [], color=_VERMILLION, marker="x", linestyle="none", label="request without answer")
        )
    _style(axes, "ms")
    _heading(axes, heading)
    _legend(axes, handles)


def _bar_width(t_s: FloatArray) -> float:
    return 0.8 * float(np.median(np.diff(t_s))) if len(t_s) > 1 else 0.1


def _draw_age(axes: Axes, timeline: Timeline) -> None:
    executed = timeline.executed
    axes.plot(executed.t_s, executed.age_s, color=_BLUE, linewidth=0.8)
    altered = np.array([len(names) > 0 for names in executed.interventions], bool)
    if altered.any():
        axes.plot(
            executed.t_s[altered],
            np.full(int(altered.sum()), 0.05),
            "|",
            color=_VERMILLION,
            markersize=7,
            markeredgewidth=1.4,
            transform=axes.get_xaxis_transform(),
        )
        _legend(
            axes, [Line2D([], [], color=_VERMILLION, marker="|", linestyle="none", label="guard intervened")]
        )
    axes.set_ylim(bottom=0)
    _style(axes, "s")
    _heading(axes, "Age of the executed action's observation")


def _draw_states(axes: Axes, timeline: Timeline) -> None:
    states, executed = timeline.states, timeline.executed
    until = np.append(states.t_s[1:], timeline.duration_s)
    for t_s, end_s, state, paused in zip(states.t_s, until, states.state, states.paused, strict=False):
        axes.broken_barh([(t_s, end_s - t_s)], (0, 1), facecolor=STATE_COLOURS[state], linewidth=0)
        if paused:
            axes.broken_barh(
                [(t_s, end_s - t_s)], (0, 1), facecolor="none", edgecolor="white", hatch="////", linewidth=0
            )
    handles: list[Line2D | Patch] = [
        Patch(color=STATE_COLOURS[name], label=name) for name in STATE_COLOURS if name in states.state
    ]
    if states.paused.any():
        handles.append(Patch(facecolor=_GREY, edgecolor="white", hatch="////", label="paused"))
    named_until = -math.inf  # names of short episodes would overlap
    for i in np.flatnonzero(np.diff(executed.episode_id, prepend=-1)):
        t_s = float(executed.t_s[i])
        axes.axvline(t_s, color="black", linewidth=1.2)
        if t_s >= named_until:
            axes.text(t_s, 1.32, f" episode {executed.episode_id[i]}", va="center", fontsize=_FONT["small"])
            named_until = t_s + 0.07 * timeline.duration_s
    axes.set_ylim(0, 1.6)  # the band, and the episodes' names above it
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelsize=_FONT["small"], length=3)
    _heading(axes, "Client state")
    _legend(axes, handles)
