# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How smoothly a robot was commanded: seams between chunks, and jerk.

Of the command c[k] of control tick k, and the control period T, the median time between two ticks:

    step in position       c[k] - c[k-1]                                [unit]
    step in velocity       (c[k] - 2 c[k-1] + c[k-2]) / T               [unit/s]
    step in acceleration   (c[k] - 3 c[k-1] + 3 c[k-2] - c[k-3]) / T^2  [unit/s2]
    jerk                   (c[k] - 3 c[k-1] + 3 c[k-2] - c[k-3]) / T^3  [unit/s3]

A tick without a command holds the last one, for a second at most. A seam is the first command of a chunk,
where commands of the same episode came before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from remote_inference.bags.timeline.robot_bag import FloatArray, Joint
from remote_inference.bags.timeline.timeline import Executed, IntArray
from remote_inference.robot.command import CommandSource

ORDERS = ("position", "velocity", "acceleration")
UNKNOWN_UNIT = "unknown"
_HELD_S = 1.0  # later it is a new motion that begins


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
