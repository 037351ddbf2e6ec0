# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A run in numbers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np

from remote_inference.recording.timeline import CHUNK_SOURCE, SOURCES, Executed, FloatArray, Timeline


def summarise(timeline: Timeline) -> dict[str, Any]:
    """Return the run in numbers, ready for JSON; None stands for a statistic of nothing.

    `seams` is about the largest joint step [rad] from one command to the next: where a new chunk begins, and
    within chunks. A hold in between is part of the seam; a change of episode is no seam.
    """
    executed, states = timeline.executed, timeline.states
    until = np.append(states.t_s[1:], timeline.duration_s)[: len(states.t_s)]
    state_s: dict[str, float] = {}
    for name, seconds in zip(states.state, until - states.t_s, strict=True):
        state_s[name] = state_s.get(name, 0.0) + float(seconds)
    sources = Counter(int(s) for s in executed.source)
    at_boundaries, within = _steps(executed)
    return {
        "duration_s": timeline.duration_s,
        "requests": len(timeline.requests.t_s),
        "requests_unanswered": int((~timeline.requests.answered).sum()),
        "latency_ms": _statistics(timeline.cycles.latency_ms, p50=50, p95=95, p99=99),
        "actions": {name: sources[i] for i, name in enumerate(SOURCES)},
        "states": [{"state": name, "seconds": seconds} for name, seconds in state_s.items()],
        "paused_s": float((until - states.t_s)[states.paused].sum()),
        "interventions": dict(Counter(name for names in executed.interventions for name in names)),
        "chunks": {
            "received": len(timeline.chunks.t_s),
            **{name: states.counters[f"chunks_{name}"] for name in ("merged", "dropped", "rejected")},
        },
        "seams": {
            "at_boundaries_rad": _statistics(at_boundaries, median=50, max=100),
            "within_chunks_rad": _statistics(within, median=50, max=100),
        },
    }


def _statistics(values: FloatArray, **percentiles: float) -> dict[str, Any]:
    if not len(values):
        return {**dict.fromkeys(percentiles), "n": 0}
    return {**{name: float(np.percentile(values, p)) for name, p in percentiles.items()}, "n": len(values)}


def _steps(executed: Executed) -> tuple[FloatArray, FloatArray]:
    """Return the largest joint step [rad] between consecutive commands: at chunk boundaries, and within."""
    rows = np.flatnonzero(executed.commanded)
    boundary, within = [], []
    for previous, row in pairwise(rows):
        if executed.source[row] != CHUNK_SOURCE or executed.episode_id[row] != executed.episode_id[previous]:
            continue
        step = float(np.nanmax(np.abs(executed.action[row] - executed.action[previous])))
        if executed.request[row] != executed.request[previous] or executed.source[previous] != CHUNK_SOURCE:
            boundary.append(step)
        elif executed.tick[row] == executed.tick[previous] + 1:  # else messages are missing in the bag
            within.append(step)
    return np.array(boundary, np.float64), np.array(within, np.float64)
