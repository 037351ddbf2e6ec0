# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A run in numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from remote_inference.core.robot.tick import CommandSource
from remote_inference.recording.joints import FloatArray
from remote_inference.recording.timeline import Executed, Timeline

UNKNOWN_UNIT = "unknown"


def summarise(timeline: Timeline) -> dict[str, Any]:
    """Return the run in numbers, ready for JSON; None stands for a statistic without samples.

    `seams` compares the largest joint steps between commands at chunk boundaries with those within chunks, by
    unit, "unknown" without a contract. A hold in between is part of the seam; a change of episode is not a
    seam. `shadow` compares would-be commands of shadow mode with the newest measurement of each joint.
    """
    executed, states = timeline.executed, timeline.states
    until = np.append(states.t_s[1:], timeline.duration_s)[: len(states.t_s)]
    state_s: dict[str, float] = {}
    for name, seconds in zip(states.state, until - states.t_s, strict=True):
        state_s[name] = state_s.get(name, 0.0) + float(seconds)
    sources = Counter(int(s) for s in executed.source)
    columns: dict[str, list[int]] = {}
    for column, joint in enumerate(timeline.joints):
        columns.setdefault(joint.unit or UNKNOWN_UNIT, []).append(column)
    steps = {unit: _steps(executed, of_unit) for unit, of_unit in columns.items()}
    return {
        "duration_s": timeline.duration_s,
        "requests": len(timeline.requests.t_s),
        "requests_unanswered": int((~timeline.requests.answered).sum()),
        "latency_ms": _statistics(timeline.cycles.latency_ms, p50=50, p95=95, p99=99),
        "actions": {source.name.lower(): sources[source] for source in CommandSource},
        "states": [{"state": name, "seconds": seconds} for name, seconds in state_s.items()],
        "paused_s": float((until - states.t_s)[states.paused].sum()),
        "shadow": _shadow(timeline),
        "interventions": dict(Counter(name for names in executed.interventions for name in names)),
        "chunks": {
            "received": len(timeline.chunks.t_s),
            **{name: states.counters[f"chunks_{name}"] for name in ("merged", "dropped", "rejected")},
        },
        "seams": {
            "at_boundaries": {unit: _statistics(s, median=50, max=100) for unit, (s, _) in steps.items()},
            "within_chunks": {unit: _statistics(s, median=50, max=100) for unit, (_, s) in steps.items()},
        },
    }


def _statistics(values: FloatArray, **percentiles: float) -> dict[str, Any]:
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


def _steps(executed: Executed, columns: list[int]) -> tuple[FloatArray, FloatArray]:
    """Return the largest steps of some joints between commands: at chunk boundaries, and within."""
    rows = np.flatnonzero(executed.commanded)
    if len(rows) < 2:
        return np.empty(0), np.empty(0)
    step = np.abs(np.diff(executed.action[rows][:, columns], axis=0)).max(axis=1)
    previous, row = rows[:-1], rows[1:]
    chunk = executed.source == CommandSource.CHUNK
    counted = chunk[row] & (executed.episode_id[row] == executed.episode_id[previous])
    other = np.array([executed.request[a] != executed.request[b] for a, b in zip(previous, row, strict=True)])
    begins = other | ~chunk[previous]
    adjacent = executed.tick[row] == executed.tick[previous] + 1  # otherwise messages are missing in the bag
    return step[counted & begins], step[counted & ~begins & adjacent]
