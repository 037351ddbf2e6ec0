# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that serves recorded commands: `remote-inference replay --arm` drives an arm with it.

A manifest names it as `remote_inference.policies.recorded_commands:load`. In model space a row is its place
on the way: the rows that a robot still executes come back as the prefix of its next request, and so the next
chunk goes on where they are. A robot without such rows is led slowly from where it is measured to the
recording.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from rclpy.logging import get_logger

from remote_inference.core.contract.actions import Home
from remote_inference.core.documents.document import Document, load_document
from remote_inference.core.fingerprint import make_fingerprint
from remote_inference.core.policy import (
    Continuation,
    Float32Array,
    PolicyError,
    PolicyObservation,
    PolicySpec,
)
from remote_inference.core.robot.motion.homing import Homing
from remote_inference.core.server.manifest.manifest import ModelSource

CONFIG_FILE = "policy.json"
ROWS_FILE = "commands.npy"
SLOW = 0.2  # fraction of the velocity limits, at the fastest point of a way to the recording
PEAK = 1.875  # of a minimum-jerk path's velocity, by its mean
JUMP_TICKS = 3  # between two rows further apart than the limits allow in this time, the arm is led slowly
CHUNK_S = 1.5
MOST_ROWS = 1 << 24  # float32 counts no further, and prefixes are float32


class CommandsConfig(Document):
    """`policy.json` beside `commands.npy`, float32 `[rows, action_dim]`."""

    bag: Annotated[str, Field(description="where the commands come from, for logs and status")]
    state_names: Annotated[tuple[str, ...], Field(min_length=1, description="state of the robots")]
    positions: Annotated[tuple[str, ...], Field(description="state with the position of each action")]
    action_names: Annotated[tuple[str, ...], Field(min_length=1, description="actions: columns of the rows")]
    max_velocity: Annotated[tuple[float, ...], Field(description="limit of each action [unit/s]")]
    fps: Annotated[float, Field(gt=0, description="rows per second")]


def load(source: ModelSource) -> RecordedCommands:
    """Load the commands of a manifest. Raises DocumentError or PolicyError naming the file."""
    return RecordedCommands(source.require_path(), get_logger("replay").info)


class Ways:
    """The recorded rows, with a slow way where they jump, and the ways that lead to them."""

    def __init__(self, rows: Float32Array, max_velocity: Sequence[float], period_s: float) -> None:
        """rows: `[rows, action_dim]`, at least one. max_velocity: by action."""
        self._max_velocity = np.asarray(max_velocity)
        self._period_s = period_s
        steps = np.abs(np.diff(rows, axis=0)) / self._max_velocity
        jumps = np.flatnonzero((steps > JUMP_TICKS * period_s).any(axis=1)) + 1
        parts = np.split(rows, jumps)
        for place in range(1, len(parts)):
            parts[place] = np.concatenate([self.lead(parts[place - 1][-1], parts[place][0]), parts[place]])
        self.rows: Float32Array = np.concatenate(parts).astype(np.float32)

    def lead(self, start: Float32Array, goal: Float32Array) -> Float32Array:
        """Return the rows of a slow way `[ticks, action_dim]` to a goal, which itself is not among them."""
        needed_s = PEAK * float((np.abs(goal - start) / (SLOW * self._max_velocity)).max())
        ticks = math.ceil(needed_s / self._period_s)
        if ticks < 2:
            return np.empty((0, len(goal)), np.float32)
        duration_s = ticks * self._period_s
        way = Homing(
            np.asarray(start, np.float64), Home(positions=tuple(map(float, goal)), duration_s=duration_s), 0
        )
        times_ns = [round(tick * self._period_s * 1e9) for tick in range(1, ticks)]
        return np.array([way.target(time_ns) for time_ns in times_ns], np.float32)

    def find_nearest(self, position: Float32Array, places: range) -> int:
        """Return the first of these places whose row is nearest to a position, by the time to go there."""
        apart = np.abs(self.rows[places.start : places.stop] - position) / self._max_velocity
        return places.start + int(apart.max(axis=1).argmin())


class CommandProcessors:
    """Where one robot is on its way. Place k is row k of the lead, then the recording from `_begin` on."""

    def __init__(
        self, ways: Ways, positions: Sequence[int], chunk_size: int, tell: Callable[[str], object]
    ) -> None:
        """positions: places in the state of the actions' positions. tell: takes news for the operator."""
        self._ways = ways
        self._positions = list(positions)
        self._chunk_size = chunk_size
        self._tell = tell
        self.reset()

    def reset(self) -> None:
        """Begin at the first row."""
        self._lead: Float32Array | None = None
        self._begin = 0
        self._first = 0  # place of the last chunk's first row
        self._told = ""

    def pre(self, observation: PolicyObservation) -> int:
        """Return the place of the next chunk's first row: where the executed rows are, else a new lead's."""
        if observation.prefix_model is None or self._lead is None:
            self._lead_from(np.asarray(observation.state, np.float32)[self._positions])
        else:
            self._first = round(float(observation.prefix_model[0, 0]))
            self._tell_news(len(self._lead))
        return self._first

    def post(self, chunk_model: Float32Array) -> Float32Array:
        """Return the rows at the places `[chunk_size, action_dim]`; after the last one, the last one."""
        assert self._lead is not None, "pre comes before"
        places, ahead = chunk_model[:, 0].astype(np.int64), len(self._lead)
        recorded = self._ways.rows[np.clip(self._begin + places - ahead, 0, len(self._ways.rows) - 1)]
        if ahead:
            is_leading = places < ahead
            recorded[is_leading] = self._lead[places[is_leading]]
        return recorded

    def _lead_from(self, position: Float32Array) -> None:
        """Lead to the row that is nearest among those that may have been reached; at the start, the first."""
        if self._lead is not None:
            reached = self._begin + max(0, self._first - len(self._lead))
            last = self._begin + max(0, self._first + self._chunk_size - len(self._lead))
            places = range(min(reached, len(self._ways.rows) - 1), min(last + 1, len(self._ways.rows)))
            self._begin = self._ways.find_nearest(position, places)
        self._lead = self._ways.lead(position, self._ways.rows[self._begin])
        self._first = 0
        self._told = ""

    def _tell_news(self, ahead: int) -> None:
        place, rows = self._begin + self._first - ahead, len(self._ways.rows)
        news = "going slowly to the recorded position"
        if place >= rows - 1:
            news = "done: holding the last recorded position"
        elif self._first >= ahead:
            news = f"replaying from row {self._begin} of {rows}"
        if news != self._told:
            self._told = news
            self._tell(news)


class RecordedCommands:
    """Serves the rows of `commands.npy` in order. Raises PolicyError when the files do not agree."""

    def __init__(self, folder: Path, tell: Callable[[str], object]) -> None:
        """tell: takes news for the operator."""
        config_file, rows_file = folder / CONFIG_FILE, folder / ROWS_FILE
        config = load_document(config_file, CommandsConfig)
        if missing := [name for name in config.positions if name not in config.state_names]:
            raise PolicyError(
                f"{config_file}: positions: found {missing[0]!r}, expected names of state_names"
            )
        self._positions = [config.state_names.index(name) for name in config.positions]
        rows = _load_rows(rows_file, len(config.action_names))
        for key in ("positions", "max_velocity"):
            if len(getattr(config, key)) != len(config.action_names):
                raise PolicyError(f"{config_file}: {key}: expected one for each of action_names")
        self._ways = Ways(rows, config.max_velocity, 1.0 / config.fps)
        self._tell = tell
        self.spec = PolicySpec(
            name="recorded_commands",
            revision=config.bag,
            fingerprint=make_fingerprint([config_file, rows_file], {}),
            state_names=config.state_names,
            action_names=config.action_names,
            image_shapes={},
            chunk_size=math.ceil(CHUNK_S * config.fps),
            trained_fps=config.fps,
            continuation=Continuation.TRAINED,
            samples=False,
            kinds=dict.fromkeys(config.action_names, ("position",)),
        )

    def make_processors(self) -> CommandProcessors:
        return CommandProcessors(self._ways, self._positions, self.spec.chunk_size, self._tell)

    def predict(self, batch: Sequence[int]) -> list[Float32Array]:
        shape = (self.spec.chunk_size, self.spec.action_dim)
        places = np.arange(self.spec.chunk_size, dtype=np.float32)[:, np.newaxis]
        return [np.broadcast_to(places + np.float32(first), shape).copy() for first in batch]

    def reset(self) -> None:
        """Do nothing: each robot's processors know where it is."""

    def close(self) -> None:
        """Do nothing: there is no device."""


def _load_rows(file: Path, action_dim: int) -> Float32Array:
    try:
        rows = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise PolicyError(f"{file}: cannot be read: {error}") from error
    if rows.ndim != 2 or not 0 < len(rows) < MOST_ROWS or rows.shape[1] != action_dim:
        expected = f"1 to {MOST_ROWS - 1} rows of {action_dim} actions"
        raise PolicyError(f"{file}: found shape {list(rows.shape)}, expected {expected}")
    if not np.isfinite(rows).all():
        raise PolicyError(f"{file}: found non-finite values, expected finite commands")
    return np.asarray(rows, np.float32)
