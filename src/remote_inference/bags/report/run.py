# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The lower half of a report: latency, age of the actions, guard and states, over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpecFromSubplotSpec, SubplotSpec
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from remote_inference.bags.report import style
from remote_inference.bags.report.style import Handle, Windows
from remote_inference.bags.report.summary import columns_by_unit, find_smoothness
from remote_inference.bags.timeline.robot_bag import FloatArray
from remote_inference.bags.timeline.timeline import WITHOUT_ACTIONS, Timeline

_SEAMS_IN, _LATENCY_IN, _AGE_IN, _GUARD_ROW_IN, _STATES_IN, _GAP_IN = 0.9, 1.6, 1.1, 0.2, 0.6, 0.42
_MOST_DRAWN = 6_000  # values of a panel: four to a pixel
_CROWD = 60  # number of episodes that leaves no room for names
_CHARACTER_IN = 0.068  # width of a character of the episodes' names
_UNIT_COLOURS = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE)


@dataclass(frozen=True)
class Episode:
    """One attempt, from its first control tick to the next episode's or the end of the bag.

    A bag says whether the robot was without actions at the end, but only the caller whether it succeeded.
    """

    episode_id: int
    begin_s: float
    end_s: float
    trouble: str  # the failure in a word or two; empty when no failure is known


def find_episodes(timeline: Timeline, outcomes: Mapping[int, bool] | None = None) -> tuple[Episode, ...]:
    """Return a run's episodes in order; `outcomes` says by episode_id which ones succeeded."""
    executed, states = timeline.executed, timeline.states
    if not len(executed.t_s):
        return ()
    begins = np.flatnonzero(np.diff(executed.episode_id, prepend=executed.episode_id[0] - 1))
    ends_s = [*executed.t_s[begins[1:]], max(timeline.duration_s, executed.t_s[-1])]
    episodes = []
    for row, end_s in zip(begins, ends_s, strict=True):
        known = int(np.searchsorted(states.t_s, end_s)) - 1
        last_state = states.state[known] if known >= 0 else ""
        episode_id = int(executed.episode_id[row])
        success = (outcomes or {}).get(episode_id)
        trouble = "failed" if success is False else ""
        if success is None and last_state in WITHOUT_ACTIONS:
            trouble = f"ended {last_state}"
        episodes.append(Episode(episode_id, float(executed.t_s[row]), float(end_s), trouble))
    return tuple(episodes)


def run_height_in(timeline: Timeline) -> float:
    return sum(_heights_in(timeline)) + 4 * _GAP_IN


def _heights_in(timeline: Timeline) -> tuple[float, ...]:
    guard_in = max(1, len(guard_events(timeline))) * _GUARD_ROW_IN + 0.1
    return _SEAMS_IN, _LATENCY_IN, _AGE_IN, guard_in, _STATES_IN


def draw_run(
    figure: Figure, place: SubplotSpec, timeline: Timeline, episodes: Sequence[Episode], windows: Windows
) -> None:
    excerpt_s = windows.excerpt_s
    heights = _heights_in(timeline)
    mean = sum(heights) / len(heights)
    grid = GridSpecFromSubplotSpec(5, 1, place, height_ratios=heights, hspace=_GAP_IN / mean)
    seams = figure.add_subplot(grid[0])
    latency, age, guard, states = (figure.add_subplot(grid[i], sharex=seams) for i in (1, 2, 3, 4))
    _draw_seams(seams, timeline, [Patch(color=style.PALE, label="shown above")] if excerpt_s else [])
    _draw_latency(latency, timeline)
    _draw_age(age, timeline)
    _draw_guard(guard, timeline, windows.run_s)
    _draw_states(states, timeline, episodes, windows.run_s)
    seams.set_xlim(*windows.run_s)
    for axes in (seams, latency, age, guard):
        axes.tick_params(labelbottom=False)
        if excerpt_s:
            style.shade(axes, [(excerpt_s[0], excerpt_s[1] - excerpt_s[0])], style.PALE)
    states.set_xlabel(style.TIME_LABEL, fontsize=style.NORMAL)


def _draw_seams(axes: Axes, timeline: Timeline, handles: list[Handle]) -> None:
    smoothness = find_smoothness(timeline.executed)
    seams, inner = smoothness.seams, smoothness.inner("velocity")
    t_s, by_unit = timeline.executed.t_s[seams], columns_by_unit(timeline.joints)
    style.style(axes, "unit/s")
    text = "Step in velocity at seams, of the joint that steps most; as a line: median within chunks"
    style.heading(axes, text)
    for (unit, columns), colour in zip(by_unit.items(), _UNIT_COLOURS, strict=False):
        steps = smoothness.largest("velocity", seams, columns)
        drawn = _highest(t_s, steps)
        handles += axes.plot(t_s[drawn], steps[drawn], ".", color=colour, label=f"{unit}/s")
        within = smoothness.largest("velocity", inner, columns)
        if np.isfinite(within).any():
            axes.axhline(float(np.nanmedian(within)), color=colour, linewidth=0.8)
    axes.set_ylim(bottom=0)
    if not len(seams):
        axes.set_yticks([])
        style.say(axes, "no chunk followed on another command")
    style.legend(axes, handles)


def _draw_latency(axes: Axes, timeline: Timeline) -> None:
    requests, handles = timeline.requests, list[Handle]()
    t_s = requests.t_s[requests.answered]
    order = np.argsort(t_s)
    t_s = t_s[order]
    parts = (
        ("inference", style.GREEN, requests.inference_ms[order]),
        ("queue", style.ORANGE, requests.queue_wait_ms[order]),
        ("network and nodes", style.SKY, requests.network_ms[order]),
    )
    text = "Request cycle latency"
    style.style(axes, "ms")
    if len(t_s):
        whole = np.sum([values for _, _, values in parts], axis=0)
        drawn = _highest(t_s, whole)
        floor = np.zeros(len(drawn))
        for label, colour, values in parts:
            axes.add_collection(_bars(t_s[drawn], floor, values[drawn], colour))
            floor = floor + values[drawn]
            handles.append(Patch(color=colour, label=label))
        top = max(1.0, min(float(whole.max()) * 1.1, float(np.percentile(whole, 99)) * 1.6))
        axes.set_ylim(0, top)
        if beyond := int((whole > top).sum()):
            text += f" ({beyond} beyond the panel, up to {whole.max():.0f} ms)"
    else:
        axes.set_yticks([])
        style.say(axes, "no request was answered" if len(requests.t_s) else "no request was recorded")
    lost = requests.t_s[~requests.answered]
    if len(lost):
        cross: dict[str, Any] = {"color": style.VERMILLION, "marker": "x", "linestyle": "none"}
        low, transform = np.full(len(lost), 0.04), axes.get_xaxis_transform()
        axes.plot(lost, low, **cross, markersize=6, markeredgewidth=1.6, transform=transform)
        handles.append(Line2D([], [], **cross, label="request without answer"))
    style.heading(axes, text)
    style.legend(axes, handles)


def _highest(t_s: FloatArray, values: FloatArray) -> NDArray[np.int64]:
    """Return the places `[k]` of what is drawn of values `[n]` in order of time: what stands out of a pixel.

    Of more values than a panel has room for, these are the highest one in each stretch of time.
    """
    if len(t_s) <= _MOST_DRAWN:
        return np.arange(len(t_s))
    stretches = np.linspace(t_s[0], t_s[-1], _MOST_DRAWN, endpoint=False)
    stretch = np.searchsorted(stretches, t_s, side="right")
    ranked = np.lexsort((-np.nan_to_num(values, nan=-np.inf), stretch))
    _, first = np.unique(stretch[ranked], return_index=True)
    return np.asarray(ranked[first], np.int64)


def _bars(t_s: FloatArray, floor: FloatArray, values: FloatArray, colour: str) -> PolyCollection:
    """Return bars as one collection: thousands of single ones take seconds to draw."""
    half = 0.4 * float(np.median(np.diff(t_s))) if len(t_s) > 1 else 0.05
    left, right, top = t_s - half, t_s + half, floor + values
    corners = np.stack([left, floor, left, top, right, top, right, floor], axis=1).reshape(-1, 4, 2)
    return PolyCollection(list(corners), facecolors=colour, edgecolors=colour, linewidths=0.4)


def _draw_age(axes: Axes, timeline: Timeline) -> None:
    executed = timeline.executed
    style.style(axes, "s")
    style.heading(axes, "Age of the executed action's observation")
    if np.isfinite(executed.age_s).any():
        t_s, age_s = executed.t_s, executed.age_s
        shown = np.union1d(_highest(t_s, age_s), _highest(t_s, -age_s))
        axes.plot(t_s[shown], age_s[shown], color=style.BLUE, linewidth=0.8)
        axes.set_ylim(bottom=0)
    else:
        axes.set_yticks([])
        style.say(axes, "no action of a chunk was executed")


def guard_events(timeline: Timeline) -> dict[str, FloatArray]:
    """Return when [s] the guard intervened, by rule.

    The control ticks name their rules. A rule that refuses whole chunks shows only in the client's counts.
    """
    executed = timeline.executed
    all_rules = executed.interventions
    named = sorted({rule for rules in all_rules for rule in rules})
    events = {rule: executed.t_s[np.array([rule in rules for rules in all_rules])] for rule in named}
    return events | {rule: t_s for rule, t_s in timeline.states.guard_rises.items() if rule not in events}


def _draw_guard(axes: Axes, timeline: Timeline, window_s: tuple[float, float]) -> None:
    begin, end = window_s
    events = guard_events(timeline)
    style.heading(axes, "Guard interventions, by rule")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelsize=style.SMALL, length=3)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(max(1, len(events)) - 0.5, -0.5)
    axes.set_yticks(range(len(events)), list(events))
    if not events:
        style.say(axes, "none")
    for row, t_s in enumerate(events.values()):
        look: dict[str, Any] = {"markersize": 9, "markeredgewidth": 1.2, "zorder": 3}
        axes.plot(t_s, np.full(len(t_s), row), "|", color=style.VERMILLION, **look)
        axes.annotate(
            str(int(((t_s >= begin) & (t_s <= end)).sum())),
            (1.0, row),
            xycoords=axes.get_yaxis_transform(),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=style.SMALL,
        )


def _draw_states(
    axes: Axes, timeline: Timeline, episodes: Sequence[Episode], window_s: tuple[float, float]
) -> None:
    states = timeline.states
    until = np.append(states.t_s[1:], timeline.duration_s)
    for t_s, end_s, state, paused in zip(states.t_s, until, states.state, states.paused, strict=False):
        span, colour = [(t_s, end_s - t_s)], style.STATE_COLOURS.get(state, style.UNKNOWN_STATE)
        axes.broken_barh(span, (0, 1), facecolor=colour, linewidth=0)
        if paused:
            axes.broken_barh(span, (0, 1), facecolor="none", edgecolor="white", hatch="////", linewidth=0)
    handles: list[Handle] = [
        Patch(color=style.STATE_COLOURS.get(name, style.UNKNOWN_STATE), label=name)
        for name in dict.fromkeys((*style.STATE_COLOURS, *states.state))
        if name in states.state
    ]
    if states.paused.any():
        handles.append(Patch(facecolor=style.GREY, edgecolor="white", hatch="////", label="paused"))
    _draw_episodes(axes, episodes, window_s)
    axes.set_ylim(0, 1.6)  # the band, and the episodes' names above it
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelsize=style.SMALL, length=3)
    style.heading(axes, "Client state and episodes")
    style.legend(axes, handles)


def _draw_episodes(axes: Axes, episodes: Sequence[Episode], window_s: tuple[float, float]) -> None:
    """Mark the episodes and name those that have room; an episode in trouble is named first."""
    begin, end = window_s
    width_in = axes.get_window_extent().width / style.DPI
    character_s = (end - begin) * _CHARACTER_IN / width_in
    shown = [e for e in episodes if e.end_s > begin and e.begin_s < end]
    taken: list[tuple[float, float]] = []
    for episode in sorted(shown, key=lambda e: not e.trouble):
        t_s = max(episode.begin_s, begin)
        if episode.trouble:
            axes.broken_barh([(t_s, episode.end_s - t_s)], (1.02, 0.58), facecolor=style.TROUBLE, linewidth=0)
        crowded = len(shown) > _CROWD
        height, width = (1.0, 0.4) if crowded else (1.6, 1.0)
        axes.vlines(episode.begin_s, 0, height, color="black", linewidth=width)
        for name in _names(episode):
            until_s = t_s + (len(name) + 2) * character_s
            last = crowded and name == str(episode.episode_id)  # a bare number may reach over its neighbours
            is_free = all(until_s <= a or t_s >= b for a, b in taken)
            if is_free and until_s <= (end if last else min(episode.end_s, end)):
                colour, weight = (style.VERMILLION, "bold") if episode.trouble else ("black", "normal")
                look: dict[str, Any] = {"fontsize": style.SMALL, "color": colour, "weight": weight}
                axes.text(t_s, 1.3, f" {name}", va="center", **look)
                taken.append((t_s, until_s))
                break


def _names(episode: Episode) -> tuple[str, ...]:
    """Return the names of an episode, from long to short."""
    number = str(episode.episode_id)
    if episode.trouble:
        return (f"episode {number} {episode.trouble}", f"{number} {episode.trouble}", number)
    return (f"episode {number}", number)
