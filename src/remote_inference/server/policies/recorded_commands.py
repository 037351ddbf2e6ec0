# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that serves recorded commands: `remote-inference replay --arm` drives an arm with it.

A manifest names it as `remote_inference.server.policies.recorded_commands:load`. In model space an
action is its index on the path: the actions that a robot still executes come back as the prefix of its next
request, and the next chunk continues there. A robot without a prefix first moves slowly from its measured
position to the recording.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from rclpy.logging import get_logger

from remote_inference.base.documents.document import Document, load_document
from remote_inference.base.fingerprint import make_fingerprint
from remote_inference.base.minimum_jerk import minimum_jerk
from remote_inference.base.policy import (
    Continuation,
    Float32Array,
    PolicyError,
    PolicyObservation,
    PolicySpec,
)
from remote_inference.server.manifest.manifest import ModelSource

CONFIG_FILE = "policy.json"
ROWS_FILE = "commands.npy"
SLOW = 0.2  # fraction of the velocity limits, at the fastest point of an approach
PEAK = 1.875  # of a minimum-jerk path's velocity, by its mean
JUMP_TICKS = 3  # between two rows further apart than the limits allow in this time, the arm moves slowly
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


class Recording:
    """The recorded commands `rows`, with slow approaches where they jump, and approaches to their begin."""

    def __init__(self, rows: Float32Array, max_velocity: Sequence[float], period_s: float) -> None:
        """rows: `[rows, action_dim]`, at least one. max_velocity: by action."""
        self._max_velocity = np.asarray(max_velocity)
        self._period_s = period_s
        steps = np.abs(np.diff(rows, axis=0)) / self._max_velocity
        jumps = np.flatnonzero((steps > JUMP_TICKS * period_s).any(axis=1)) + 1
        parts = np.split(rows, jumps)
        for place in range(1, len(parts)):
            parts[place] = np.concatenate(
                [self.approach(parts[place - 1][-1], parts[place][0]), parts[place]]
            )
        self.rows: Float32Array = np.concatenate(parts).astype(np.float32)

    def approach(self, start: Float32Array, goal: Float32Array) -> Float32Array:
        """Return a slow minimum-jerk path `[ticks, action_dim]` to a goal, without the goal itself."""
        needed_s = PEAK * float((np.abs(goal - start) / (SLOW * self._max_velocity)).max())
        ticks = math.ceil(needed_s / self._period_s)
        if ticks < 2:
            return np.empty((0, len(goal)), np.float32)
        progress = np.array([[minimum_jerk(tick / ticks)] for tick in range(1, ticks)])
        return np.asarray(start + progress * (goal - start), np.float32)

    def find_nearest(self, position: Float32Array, places: range) -> int:
        """Return the first of these indices whose command is nearest to a position, by moving time."""
        apart = np.abs(self.rows[places.start : places.stop] - position) / self._max_velocity
        return places.start + int(apart.max(axis=1).argmin())


class CommandProcessors:
    """Tracks one robot's index on its path: the approach first, then the recording from `_begin` on."""

    def __init__(
        self, recording: Recording, positions: Sequence[int], chunk_size: int, log: Callable[[str], object]
    ) -> None:
        """positions: index in the state of each action's position. log: called with news for the operator."""
        self._recording = recording
        self._positions = list(positions)
        self._chunk_size = chunk_size
        self._log = log
        self.reset()

    def reset(self) -> None:
        """Begin at the first command."""
        self._approach: Float32Array | None = None
        self._begin = 0
        self._first = 0  # path index of the last chunk's first action
        self._logged = ""

    def pre(self, observation: PolicyObservation) -> int:
        """Return the path index of the next chunk's first action: the prefix's, or 0 of a new approach."""
        if observation.prefix_model is None or self._approach is None:
            self._start_approach(np.asarray(observation.state, np.float32)[self._positions])
        else:
            self._first = round(float(observation.prefix_model[0, 0]))
            self._log_progress(len(self._approach))
        return self._first

    def post(self, chunk_model: Float32Array) -> Float32Array:
        """Return the commands at the indices `[chunk_size, action_dim]`; behind the end the last one."""
        assert self._approach is not None, "pre comes before"
        places, ahead = chunk_model[:, 0].astype(np.int64), len(self._approach)
        rows = self._recording.rows
        recorded = rows[np.clip(self._begin + places - ahead, 0, len(rows) - 1)]
        if ahead:
            is_leading = places < ahead
            recorded[is_leading] = self._approach[places[is_leading]]
        return recorded

    def _start_approach(self, position: Float32Array) -> None:
        """Approach the nearest command of those that may have been reached; at the start, the first."""
        rows = self._recording.rows
        if self._approach is not None:
            reached = self._begin + max(0, self._first - len(self._approach))
            last = self._begin + max(0, self._first + self._chunk_size - len(self._approach))
            places = range(min(reached, len(rows) - 1), min(last + 1, len(rows)))
            self._begin = self._recording.find_nearest(position, places)
        self._approach = self._recording.approach(position, rows[self._begin])
        self._first = 0
        self._logged = ""

    def _log_progress(self, ahead: int) -> None:
        place, rows = self._begin + self._first - ahead, len(self._recording.rows)
        news = "going slowly to the recorded position"
        if place >= rows - 1:
            news = "done: holding the last recorded position"
        elif self._first >= ahead:
            news = f"replaying from row {self._begin} of {rows}"
        if news != self._logged:
            self._logged = news
            self._log(news)


class RecordedCommands:
    """Serves the rows of `commands.npy` in order. Raises PolicyError when the files do not agree."""

    def __init__(self, folder: Path, log: Callable[[str], object]) -> None:
        """log: called with news for the operator."""
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
        self._recording = Recording(rows, config.max_velocity, 1.0 / config.fps)
        self._log = log
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
        return CommandProcessors(self._recording, self._positions, self.spec.chunk_size, self._log)

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
