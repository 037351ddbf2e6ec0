# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The acceptance run of capacity.py: many sessions that overload the server are served alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from capacity_rig import CASE, RATE_HZ, SCHEDULERS, jain_index, run_window, serving, write_manifest
from capacity_robots import Demand, Fleet, Record, open_sessions
from request_cycle_rig import CHUNK_SIZE, FPS, plain_node, write_deployment
from rich.console import Console

from remote_inference.server.manifest.manifest import load_manifest
from remote_inference.server.policies import load_policy

SESSIONS, SECONDS = 64, 60.0
MAX_UNEVEN = 0.05  # largest deviation, as a fraction of the mean share
# The longest time without an answer: a chunk's duration, or on a slower server so many of its mean times.
CHUNK_S = CHUNK_SIZE / FPS
MAX_GAP_RATIO = 3.0


def accept(console: Console, folder: Path) -> bool:
    """Serve 64 sessions with each scheduler; print the figures and return whether all checks held."""
    write_deployment(folder, CASE)
    held = True
    node = plain_node("capacity_acceptance")
    for scheduler in SCHEDULERS:
        manifest = write_manifest(folder, "hold", scheduler)
        features = tuple(load_policy(load_manifest(manifest).model).spec.image_shapes)
        with (
            serving(folder, manifest) as (pid, _pinger),
            Fleet(SESSIONS, Demand(1.0 / RATE_HZ, features)) as fleet,
            console.status(f"{scheduler}: {SESSIONS} sessions for {SECONDS:g} s"),
        ):
            records, before, after = run_window(fleet, pid, SECONDS)
            kept = open_sessions(node)
        answers = np.array([len(record.arrival_s) for record in records])
        console.print(
            f"{scheduler}: {answers.sum() / SECONDS:.0f} answers/s of {SESSIONS * RATE_HZ:.0f} asked, "
            f"fairness {jain_index(answers):.5f}, "
            f"{(after.cpu_s - before.cpu_s) * 1e3 / max(answers.sum(), 1):.2f} ms CPU each"
        )
        for text, holds in check(records, kept).items():
            console.print(f"  {'held' if holds else 'NOT HELD'}: {text}", highlight=False)
            held &= holds
    node.destroy_node()
    return held


def check(records: list[Record], kept: set[str]) -> dict[str, bool]:
    """Return which statements hold for the robots' records, by text. kept: sessions open at the end."""
    answers = np.array([len(record.arrival_s) for record in records])
    mean = float(answers.mean())
    gap_s = max(float(np.diff(record.arrival_s).max(initial=0.0)) for record in records)
    max_gap_s = max(CHUNK_S, MAX_GAP_RATIO * SECONDS / max(mean, 1.0))
    opened = {record.session_id for record in records}
    lost, errors = sum(record.lost for record in records), sum(record.errors for record in records)
    return {
        f"answers per session {answers.min()} to {answers.max()}, within {MAX_UNEVEN:.0%} of the mean "
        f"{mean:.1f}": mean > 0 and bool((np.abs(answers - mean) <= MAX_UNEVEN * mean).all()),
        f"longest time without an answer {gap_s:.2f} s, at most {max_gap_s:.2f} s": gap_s <= max_gap_s,
        f"{len(kept)} sessions open, {len(opened)} opened": kept == {record.session_id for record in records},
        f"{lost} requests lost, {errors} answered with an error": lost == errors == 0,
    }
