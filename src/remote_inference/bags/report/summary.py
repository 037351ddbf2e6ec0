# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A run in numbers, and the numbers in sentences.

How smoothly a robot was commanded: seams between chunks, and jerk.

Of the command c[k] of control tick k, and the control period T, the median time between two ticks:

    step in position       c[k] - c[k-1]                                [unit]
    step in velocity       (c[k] - 2 c[k-1] + c[k-2]) / T               [unit/s]
    step in acceleration   (c[k] - 3 c[k-1] + 3 c[k-2] - c[k-3]) / T^2  [unit/s2]
    jerk                   (c[k] - 3 c[k-1] + 3 c[k-2] - c[k-3]) / T^3  [unit/s3]

A tick without a command holds the last one, for a second at most. A seam is the first command of a chunk,
where commands of the same episode came before it.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.bags.checks.check import count
from remote_inference.bags.timeline.messages import name_of
from remote_inference.bags.timeline.robot_bag import FloatArray, Joint
from remote_inference.bags.timeline.timeline import Executed, IntArray, States, Timeline, intervals
from remote_inference.robot.command import CommandSource

ORDERS = ("position", "velocity", "acceleration")
UNKNOWN_UNIT = "unknown"
_HELD_S = 1.0  # later it is a new motion that begins
LARGEST = 3  # seams of a unit that are listed
WIDTH = 80  # columns of the sentences
_LEADING = (CommandSource.CHUNK, CommandSource.HOMING, CommandSource.HUMAN)  # what moves a robot on
# What a control tick without a chunk commands, in the words of a sentence.
_COMMANDED = {
    "human": "a person's commands",
    "homing": "the way home",
    "repeat_last": "the last command again",
    "zero": "zero",
    "hold": "the end of a trajectory",
    "none": "nothing",
}


def columns_by_unit(joints: Sequence[Joint]) -> dict[str, list[int]]:
    """Return the columns of the actions by unit, "unknown" without a contract; a switch does not move."""
    columns: dict[str, list[int]] = {}
    for column, joint in enumerate(joints):
        if joint.limit is None or joint.limit.kind != "switch":
            columns.setdefault(joint.unit or UNKNOWN_UNIT, []).append(column)
    return columns


@dataclass(frozen=True)
class Smoothness:
    """What changed from tick to tick, without sign; NaN where the ticks before are not known."""

    steps: Mapping[str, FloatArray]  # by ORDERS, each `[n, action_dim]`
    jerk: FloatArray  # `[n, action_dim]`; NaN also from the fourth tick without a command on
    seams: IntArray  # [k] rows
    since: IntArray  # [n] ticks since the first action of the chunk was executed, -1 without a chunk

    def largest(self, order: str, rows: IntArray, columns: Sequence[int]) -> FloatArray:
        """Return the largest step of some joints in each row `[rows]`."""
        return np.asarray(np.fmax.reduce(self.steps[order][rows][:, columns], axis=1), np.float64)

    def inner(self, order: str) -> IntArray:
        """Return the rows whose steps are of commands of one chunk alone."""
        return np.flatnonzero(self.since > ORDERS.index(order))

    def largest_seams(self, columns: Sequence[int], most: int) -> list[tuple[int, int]]:
        """Return where the steps in velocity of some joints are largest, as row and column, largest first."""
        size = self.largest("velocity", self.seams, columns)
        rows = self.seams[np.argsort(-size, kind="stable")][: min(most, int((size > 0.0).sum()))]
        velocity = self.steps["velocity"]
        return [(int(row), columns[int(np.nanargmax(velocity[row, columns]))]) for row in rows]

    def median_within(self, order: str, seam: int, column: int) -> float | None:
        """Return a joint's median step within the chunk that begins in a row, None with too few ticks."""
        rows = self.inner(order)
        steps = self.steps[order][rows[rows - self.since[rows] == seam], column]
        return float(np.median(steps[np.isfinite(steps)])) if np.isfinite(steps).any() else None


def find_smoothness(executed: Executed) -> Smoothness:
    tick, episode, rows = executed.tick, executed.episode_id, np.arange(len(executed.tick))
    begins = (np.diff(tick, prepend=tick[:1]) != 1) | (np.diff(episode, prepend=episode[:1]) != 0)
    first = np.maximum.accumulate(np.where(begins, rows, 0))  # of the ticks in a row
    apart_s = np.diff(executed.t_s)[~begins[1:]]
    period_s = float(np.median(apart_s)) if len(apart_s) else np.nan
    given = np.where(np.isfinite(executed.action), rows[:, np.newaxis], -1)
    newest = np.maximum.accumulate(given, axis=0)
    silent = rows[:, np.newaxis] - newest
    is_known = (newest >= first[:, np.newaxis]) & (silent * period_s <= _HELD_S)
    change = np.where(is_known, np.take_along_axis(executed.action, np.maximum(newest, 0), axis=0), np.nan)
    steps: dict[str, FloatArray] = {}
    for order in ORDERS:
        change = np.diff(change, axis=0, prepend=np.nan) / (period_s if steps else 1.0)
        change[begins] = np.nan
        steps[order] = np.abs(change)
    jerk = np.where(silent <= len(ORDERS), np.abs(change) / period_s, np.nan)
    since = rows - np.maximum.accumulate(np.where(executed.begins_chunk, rows, 0))
    since = np.where(executed.source == CommandSource.CHUNK, since, -1)
    seams = np.flatnonzero(executed.begins_chunk & np.isfinite(change).all(axis=1))
    return Smoothness(steps, jerk, seams, since)


def summarise(timeline: Timeline) -> dict[str, Any]:
    """Return the run in numbers, ready for JSON; None stands for a statistic without samples.

    `seams` compares the largest joint steps between commands at chunk boundaries with those within chunks, by
    unit, "unknown" without a contract, and lists the largest ones. `behind_plan_s` is the time in which the
    guard commanded something else than the policy's action. `longest_hold` is the longest time within an
    episode without motion commands while it was not paused. `shadow` compares would-be commands of shadow
    mode with the newest measurement of each joint.
    """
    executed, states = timeline.executed, timeline.states
    until = _ends_of_states(timeline)
    state_s: dict[str, float] = {}
    for name, seconds in zip(states.state, until - states.t_s, strict=True):
        state_s[name] = state_s.get(name, 0.0) + float(seconds)
    sources = Counter(int(s) for s in executed.source)
    chunked = np.flatnonzero(executed.source == CommandSource.CHUNK)
    known = {*CommandSource, *sources}  # fallbacks' own ones, and those of a later release, when they occur
    smoothness = find_smoothness(executed)
    altered = np.array([bool(rules) for rules in executed.interventions], bool)
    altered &= executed.source == CommandSource.CHUNK
    return {
        "duration_s": timeline.duration_s,
        "requests": len(timeline.requests.t_s),
        "requests_unanswered": int((~timeline.requests.answered).sum()),
        "latency_ms": _statistics(timeline.requests.latency_ms, p50=50, p95=95, p99=99),
        "actions": {name_of(CommandSource, source).lower(): sources[source] for source in sorted(known)},
        "age_s": _statistics(executed.age_s, median=50, p95=95, max=100),
        "states": [{"state": name, "seconds": seconds} for name, seconds in state_s.items()],
        "paused_s": float((until - states.t_s)[states.paused].sum()),
        "pauses": _find_pauses(states, until),
        "watchdog_stops": [asdict(stop) for stop in timeline.watchdog_stops],
        "longest_hold": _longest_hold(timeline),
        "shadow": _shadow(timeline),
        "clock_jumps": [asdict(jump) for jump in timeline.clock_jumps],
        "interventions": dict(Counter(name for names in executed.interventions for name in names)),
        "clamped": {
            clamp.joint: {"unit": clamp.unit, "ticks": clamp.ticks, "largest": clamp.largest}
            for clamp in timeline.clamps
        },
        "chunks": {
            "received": timeline.requests.chunks,
            "executed": len({executed.request[tick] for tick in chunked}),
            **{name: states.counters[f"chunks_{name}"] for name in ("merged", "dropped", "rejected")},
        },
        "seams": _seams(timeline, smoothness),
        "jerk": _jerk(timeline, smoothness),
        "behind_plan_s": sum((s for _, s in intervals(executed.t_s, altered, timeline.duration_s)), 0.0),
    }


def _ends_of_states(timeline: Timeline) -> FloatArray:
    """Return until when [s] each row of the states held."""
    t_s = timeline.states.t_s
    return np.append(t_s[1:], timeline.duration_s)[: len(t_s)]


def _find_pauses(states: States, until: FloatArray) -> list[dict[str, Any]]:
    """Return the pauses in order, each for one cause. until [s]: as of `_ends_of_states`."""
    pauses: list[dict[str, Any]] = []
    end_s = None
    rows = (states.t_s.tolist(), until.tolist(), states.paused.tolist(), states.pause_cause)
    for begin_s, ends_s, paused, cause in zip(*rows, strict=True):
        if not paused:
            continue
        if pauses and begin_s == end_s and pauses[-1]["cause"] == cause:
            pauses[-1]["seconds"] = ends_s - pauses[-1]["begin_s"]
        else:
            pauses.append({"begin_s": begin_s, "seconds": ends_s - begin_s, "cause": cause})
        end_s = ends_s
    return pauses


def _paused(timeline: Timeline) -> NDArray[np.bool_]:
    """Return in which control ticks [n] the robot was paused."""
    states, ticks_s = timeline.states, timeline.executed.t_s
    if not len(states.t_s):
        return np.zeros(len(ticks_s), bool)
    newest = np.searchsorted(states.t_s, ticks_s, side="right") - 1
    return np.asarray((newest >= 0) & states.paused[np.maximum(newest, 0)], bool)


def _longest_hold(timeline: Timeline) -> dict[str, Any] | None:
    executed, states = timeline.executed, timeline.states
    led = np.flatnonzero(np.isin(executed.source, _LEADING))
    held = np.zeros(len(executed.t_s), bool)
    for gap in np.flatnonzero((np.diff(led) > 1) & (np.diff(executed.episode_id[led]) == 0)):
        held[led[gap] + 1 : led[gap + 1]] = True
    holds = intervals(executed.t_s, held & ~_paused(timeline), timeline.duration_s)
    if not holds:
        return None
    begin_s, seconds = max(holds, key=lambda hold: hold[1])
    meanwhile = np.flatnonzero((states.t_s < begin_s + seconds) & (_ends_of_states(timeline) > begin_s))
    return {
        "begin_s": begin_s,
        "seconds": seconds,
        "states": [{"state": states.state[row], "cause": states.cause[row]} for row in meanwhile],
    }


def _statistics(values: FloatArray, **percentiles: float) -> dict[str, Any]:
    values = values[np.isfinite(values)]
    if not len(values):
        return {**dict.fromkeys(percentiles), "n": 0}
    return {**{name: float(np.percentile(values, p)) for name, p in percentiles.items()}, "n": len(values)}


def _shadow(timeline: Timeline) -> dict[str, Any]:
    """Return the distances of would-be commands from the measured joints, by joint."""
    executed = timeline.executed
    rows = np.flatnonzero(executed.shadow & executed.commanded)
    distances = {}
    for column, joint in enumerate(timeline.joints):
        newest = np.searchsorted(joint.t_s, executed.t_s[rows], side="right") - 1
        compared = newest >= 0
        commands = executed.action[rows[compared], column]
        difference = np.abs(commands - joint.value[newest[compared]])
        distances[joint.name] = _statistics(difference, median=50, p95=95, max=100)
    return {"ticks": len(rows), "distance": distances}


def _seams(timeline: Timeline, smoothness: Smoothness) -> dict[str, Any]:
    """Return the steps in position, by name those in velocity and acceleration, and the largest seams."""
    columns = columns_by_unit(timeline.joints)
    found: dict[str, Any] = {"count": len(smoothness.seams)}
    for order in ORDERS:
        rows = {"at_boundaries": smoothness.seams, "within_chunks": smoothness.inner(order)}
        steps = {
            place: {
                unit: _statistics(smoothness.largest(order, of_place, own), median=50, max=100)
                for unit, own in columns.items()
            }
            for place, of_place in rows.items()
        }
        found |= steps if order == "position" else {order: steps}
    found["largest"] = [
        {
            "t_s": float(timeline.executed.t_s[row]),
            "tick": int(timeline.executed.tick[row]),
            "joint": timeline.joints[column].name,
            "unit": unit,
            "steps": {order: float(steps[row, column]) for order, steps in smoothness.steps.items()},
            "within_chunk": {order: smoothness.median_within(order, row, column) for order in ORDERS},
        }
        for unit, own in columns.items()
        for row, column in smoothness.largest_seams(own, LARGEST)
    ]
    return found


def _jerk(timeline: Timeline, smoothness: Smoothness) -> dict[str, Any]:
    """Return the jerk by joint; of one that was not commanded, none."""
    found = {}
    for unit, columns in columns_by_unit(timeline.joints).items():
        for column in columns:
            jerk = smoothness.jerk[np.isfinite(smoothness.jerk[:, column]), column]
            if len(jerk):
                numbers = {"rms": float(np.sqrt(np.mean(jerk**2))), **_statistics(jerk, p99=99)}
                found[timeline.joints[column].name] = {"unit": f"{unit}/s3", **numbers}
    return found


def describe(namespace: str, numbers: Mapping[str, Any]) -> list[str]:
    """Return what `summarise` found as sentences and a table of seams, in lines of at most 80 columns."""
    return [
        line
        for sentence in (
            f"{namespace}, {numbers['duration_s']:.1f} s: {_describe_commands(numbers)}.",
            *_describe_latency(numbers),
            *_describe_interventions(numbers),
            *_describe_hold(numbers),
            *_describe_states(numbers),
            *_describe_smoothness(numbers),
        )
        for line in textwrap.wrap(sentence, WIDTH, subsequent_indent="  ")
    ]


def _describe_commands(numbers: Mapping[str, Any]) -> str:
    counts = numbers["actions"]
    if not (ticks := sum(counts.values())):
        return "no control tick was recorded"
    words = {"chunk": f"actions of {count(numbers['chunks']['executed'], 'chunk')}", **_COMMANDED}
    words |= {
        name: f"what this version does not know (source {name})"
        if name.isdecimal()
        else f"a fallback's own ({name})"
        for name in counts
        if name not in words
    }
    counted = ", ".join(f"{counts[name]} {text}" for name, text in words.items() if counts[name])
    shadow = numbers["shadow"]["ticks"]
    aside = f"; in {shadow} of them nothing was published (shadow mode)" if shadow else ""
    return f"of {count(ticks, 'control tick')}, {counted.replace(' ', ' commanded ', 1)}{aside}"


def _describe_latency(numbers: Mapping[str, Any]) -> Iterator[str]:
    age, latency, unanswered = numbers["age_s"], numbers["latency_ms"], numbers["requests_unanswered"]
    if age["n"]:
        yield (
            f"The observation behind an action was {age['median']:.2f} s old in the median, "
            f"{age['p95']:.2f} s at p95, {age['max']:.2f} s at most."
        )
    took = "; an answer took {p50:.0f} ms in the median, {p95:.0f} ms at p95, {p99:.0f} ms at p99"
    took = took.format_map(latency) if latency["n"] else ""
    yield f"{count(numbers['requests'], 'request')}, {unanswered or 'none'} unanswered{took}."


def _describe_interventions(numbers: Mapping[str, Any]) -> Iterator[str]:
    interventions = sorted(numbers["interventions"].items())
    rules = ", ".join(f"{rule} in {count(ticks, 'tick')}" for rule, ticks in interventions)
    yield f"The guard intervened: {rules}." if rules else "The guard did not intervene."
    beyond = ", ".join(
        f"{joint} by up to {one['largest']:.2g} {one['unit']} in {count(one['ticks'], 'tick')}"
        for joint, one in numbers["clamped"].items()
    )
    if beyond:
        yield f"The policy asked for more than the joints' limits: {beyond}."


def _describe_hold(numbers: Mapping[str, Any]) -> Iterator[str]:
    hold = numbers["longest_hold"]
    if hold is not None:
        states = ", then ".join(
            f"{one['state']} ({one['cause']})" if one["cause"] else one["state"] for one in hold["states"]
        )
        meanwhile = f": {states}" if states else ""
        yield f"The longest hold took {hold['seconds']:.2f} s, from {hold['begin_s']:.1f} s on{meanwhile}."
    elif any(numbers["actions"][source.name.lower()] for source in _LEADING):
        yield "Within its episodes the robot was never held."


def _describe_states(numbers: Mapping[str, Any]) -> Iterator[str]:
    states = ", ".join(f"{one['state']} {one['seconds']:.1f} s" for one in numbers["states"])
    if states:
        paused = f"; paused for {numbers['paused_s']:.1f} s" if numbers["paused_s"] else ""
        yield f"States: {states}{paused}."
    for stop in numbers["watchdog_stops"]:
        yield f"The command watchdog stopped the controllers at {stop['t_s']:.1f} s: {stop['cause']}."
    for pause in numbers["pauses"]:
        if pause["cause"]:
            span = f"{pause['seconds']:.1f} s from {pause['begin_s']:.1f} s on"
            yield f"It was paused for {span}: {pause['cause']}."
    for jump in numbers["clock_jumps"]:
        change = f"by {jump['jump_s']:+.3f} s at {jump['t_s']:.1f} s"
        yield f"The recorder's clock was set {change}; times here go on steadily."


def _describe_smoothness(numbers: Mapping[str, Any]) -> Iterator[str]:
    if numbers["chunks"]["executed"]:
        seams, behind_s = count(numbers["seams"]["count"], "seam"), numbers["behind_plan_s"]
        yield f"{seams} between chunks; the command was behind the plan for {behind_s:.2f} s in all."
    jerk = ", ".join(
        f"{joint} {_short(one['rms'])} and {_short(one['p99'])} {one['unit']}"
        for joint, one in numbers["jerk"].items()
    )
    if jerk:
        yield f"Jerk, RMS and p99: {jerk}."
    if largest := numbers["seams"]["largest"]:
        yield "The largest steps at seams, in brackets the medians within the same chunk:"
        yield f"    at s    tick  {''.join(f'{order:<15}' for order in ORDERS)}joint"
    for seam in largest:
        pairs = zip(seam["steps"].values(), seam["within_chunk"].values(), strict=True)
        cells = "".join(f"{f'{_short(step)} ({_short(within)})':<15}" for step, within in pairs)
        yield f"{seam['t_s']:8.2f}{seam['tick']:8}  {cells}{seam['joint']} {seam['unit']}"


def _short(value: float | None) -> str:
    """Return a number of two digits, or more in front of the point."""
    return "-" if value is None else f"{value:.2g}" if value < 99.5 else f"{value:.0f}"
