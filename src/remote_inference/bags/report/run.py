# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The lower half of a report: latency, age of the actions, guard and states, over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpecFromSubplotSpec, SubplotSpec
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from remote_inference.bags.report.style import (
    BLUE,
    DPI,
    GREEN,
    GREY,
    NORMAL,
    ORANGE,
    PALE,
    SKY,
    SMALL,
    STATE_COLOURS,
    TIME_LABEL,
    TROUBLE,
    UNKNOWN_STATE,
    VERMILLION,
    Handle,
    Windows,
    heading,
    legend,
    say,
    shade,
    style,
)
from remote_inference.bags.timeline.robot_bag import FloatArray
from remote_inference.bags.timeline.timeline import WITHOUT_ACTIONS, Timeline

_LATENCY_IN, _AGE_IN, _GUARD_ROW_IN, _STATES_IN, _GAP_IN = 1.6, 1.1, 0.2, 0.6, 0.42
_MOST_DRAWN = 6_000  # values of a panel: four to a pixel
_CROWD = 60  # number of episodes that leaves no room for names
_CHARACTER_IN = 0.068  # width of a character of the episodes' names


# The episodes of a run and their outcomes, as far as they are known.
# A bag does not say whether an episode reached its goal: the caller may say so. A bag does say whether the
# robot was without actions when the episode ended.
@dataclass(frozen=True)
class Episode:
    """One attempt, from its first control tick to the next episode's or the end of the bag."""

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
    return _LATENCY_IN + _AGE_IN + _guard_height_in(timeline) + _STATES_IN + 3 * _GAP_IN


def _guard_height_in(timeline: Timeline) -> float:
    return max(1, len(guard_events(timeline))) * _GUARD_ROW_IN + 0.1


def draw_run(
    figure: Figure,
    place: SubplotSpec,
    timeline: Timeline,
    episodes: Sequence[Episode],
    windows: Windows,
) -> None:
    excerpt_s = windows.excerpt_s
    heights = (_LATENCY_IN, _AGE_IN, _guard_height_in(timeline), _STATES_IN)
    mean = sum(heights) / len(heights)
    grid = GridSpecFromSubplotSpec(4, 1, place, height_ratios=heights, hspace=_GAP_IN / mean)
    latency = figure.add_subplot(grid[0])
    age, guard, states = (figure.add_subplot(grid[i], sharex=latency) for i in (1, 2, 3))
    _draw_latency(latency, timeline, [Patch(color=PALE, label="shown above")] if excerpt_s else [])
    _draw_age(age, timeline)
    _draw_guard(guard, timeline, windows.run_s)
    _draw_states(states, timeline, episodes, windows.run_s)
    latency.set_xlim(*windows.run_s)
    for axes in (latency, age, guard):
        axes.tick_params(labelbottom=False)
        if excerpt_s:
            shade(axes, [(excerpt_s[0], excerpt_s[1] - excerpt_s[0])], PALE)
    states.set_xlabel(TIME_LABEL, fontsize=NORMAL)


def _draw_latency(axes: Axes, timeline: Timeline, handles: list[Handle]) -> None:
    requests = timeline.requests
    t_s = requests.t_s[requests.answered]
    order = np.argsort(t_s)
    t_s = t_s[order]
    parts = (
        ("inference", GREEN, requests.inference_ms[order]),
        ("queue", ORANGE, requests.queue_wait_ms[order]),
        ("network and nodes", SKY, requests.network_ms[order]),
    )
    text = "Request cycle latency"
    style(axes, "ms")
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
        say(axes, "no request was answered" if len(requests.t_s) else "no request was recorded")
    lost = requests.t_s[~requests.answered]
    if len(lost):
        axes.plot(
            lost,
            np.full(len(lost), 0.04),
            "x",
            color=VERMILLION,
            markersize=6,
            markeredgewidth=1.6,
            transform=axes.get_xaxis_transform(),
        )
        label = "request without answer"
        handles.append(Line2D([], [], color=VERMILLION, marker="x", linestyle="none", label=label))
    heading(axes, text)
    legend(axes, handles)


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
    style(axes, "s")
    heading(axes, "Age of the executed action's observation")
    if np.isfinite(executed.age_s).any():
        t_s, age_s = executed.t_s, executed.age_s
        shown = np.union1d(_highest(t_s, age_s), _highest(t_s, -age_s))
        axes.plot(executed.t_s[shown], executed.age_s[shown], color=BLUE, linewidth=0.8)
        axes.set_ylim(bottom=0)
    else:
        axes.set_yticks([])
        say(axes, "no action of a chunk was executed")


def guard_events(timeline: Timeline) -> dict[str, FloatArray]:
    """Return when [s] the guard intervened, by rule.

    The control ticks name their rules. A rule that refuses whole chunks shows only in the client's counts.
    """
    executed = timeline.executed
    named = sorted({rule for rules in executed.interventions for rule in rules})
    events = {
        rule: executed.t_s[np.array([rule in rules for rules in executed.interventions])] for rule in named
    }
    return events | {rule: t_s for rule, t_s in timeline.states.guard_rises.items() if rule not in events}


def _draw_guard(axes: Axes, timeline: Timeline, window_s: tuple[float, float]) -> None:
    begin, end = window_s
    events = guard_events(timeline)
    heading(axes, "Guard interventions, by rule")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelsize=SMALL, length=3)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(max(1, len(events)) - 0.5, -0.5)
    axes.set_yticks(range(len(events)), list(events))
    if not events:
        say(axes, "none")
    for row, t_s in enumerate(events.values()):
        axes.plot(
            t_s, np.full(len(t_s), row), "|", color=VERMILLION, markersize=9, markeredgewidth=1.2, zorder=3
        )
        axes.annotate(
            f"{int(((t_s >= begin) & (t_s <= end)).sum())}",
            (1.0, row),
            xycoords=axes.get_yaxis_transform(),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
        )


def _draw_states(
    axes: Axes, timeline: Timeline, episodes: Sequence[Episode], window_s: tuple[float, float]
) -> None:
    states = timeline.states
    until = np.append(states.t_s[1:], timeline.duration_s)
    for t_s, end_s, state, paused in zip(states.t_s, until, states.state, states.paused, strict=False):
        colour = STATE_COLOURS.get(state, UNKNOWN_STATE)
        axes.broken_barh([(t_s, end_s - t_s)], (0, 1), facecolor=colour, linewidth=0)
        if paused:
            axes.broken_barh(
                [(t_s, end_s - t_s)], (0, 1), facecolor="none", edgecolor="white", hatch="////", linewidth=0
            )
    handles: list[Handle] = [
        Patch(color=STATE_COLOURS.get(name, UNKNOWN_STATE), label=name)
        for name in dict.fromkeys((*STATE_COLOURS, *states.state))
        if name in states.state
    ]
    if states.paused.any():
        handles.append(Patch(facecolor=GREY, edgecolor="white", hatch="////", label="paused"))
    _draw_episodes(axes, episodes, window_s)
    axes.set_ylim(0, 1.6)  # the band, and the episodes' names above it
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelsize=SMALL, length=3)
    heading(axes, "Client state and episodes")
    legend(axes, handles)


def _draw_episodes(axes: Axes, episodes: Sequence[Episode], window_s: tuple[float, float]) -> None:
    """Mark the episodes and name those that have room; an episode in trouble is named first."""
    begin, end = window_s
    width_in = axes.get_window_extent().width / DPI
    character_s = (end - begin) * _CHARACTER_IN / width_in
    shown = [e for e in episodes if e.end_s > begin and e.begin_s < end]
    taken: list[tuple[float, float]] = []
    for episode in sorted(shown, key=lambda e: not e.trouble):
        t_s = max(episode.begin_s, begin)
        if episode.trouble:
            axes.broken_barh([(t_s, episode.end_s - t_s)], (1.02, 0.58), facecolor=TROUBLE, linewidth=0)
        crowded = len(shown) > _CROWD
        axes.vlines(
            episode.begin_s, 0, 1.0 if crowded else 1.6, color="black", linewidth=0.4 if crowded else 1.0
        )
        for name in _names(episode):
            until_s = t_s + (len(name) + 2) * character_s
            last = crowded and name == str(episode.episode_id)  # a bare number may reach over its neighbours
            if until_s <= (end if last else min(episode.end_s, end)) and all(
                until_s <= a or t_s >= b for a, b in taken
            ):
                colour, weight = (VERMILLION, "bold") if episode.trouble else ("black", "normal")
                axes.text(t_s, 1.3, f" {name}", va="center", fontsize=SMALL, color=colour, weight=weight)
                taken.append((t_s, until_s))
                break


def _names(episode: Episode) -> tuple[str, ...]:
    """Return the names of an episode, from long to short."""
    number = str(episode.episode_id)
    if episode.trouble:
        return (f"episode {number} {episode.trouble}", f"{number} {episode.trouble}", number)
    return (f"episode {number}", number)
