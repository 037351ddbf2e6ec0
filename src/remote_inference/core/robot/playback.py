# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the robot is commanded in each control tick: the next queued action, guarded, or the fallback."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from remote_inference.core.robot.action_queue import ActionQueue, QueuedAction
from remote_inference.core.robot.guard import AGE, Float64Array, Guard

STOP_TICKS = 30  # a single zero may be lost on its way to the controller


class CommandSource(IntEnum):
    """The values are those of ExecutedAction.msg."""

    NONE = 0
    CHUNK = 1
    REPEAT_LAST = 2
    ZERO = 3
    HOMING = 4


@dataclass(frozen=True)
class Tick:
    """The outcome of one control tick. `command` is `[action_dim]`, None when nothing is to be published."""

    command: Float64Array | None
    source: CommandSource
    queued: QueuedAction | None = None
    age_s: float = math.nan
    interventions: tuple[str, ...] = ()


class Playback:
    """Pops, guards and falls back. `tick` is the control thread's; the flags are set by the engine's."""

    def __init__(
        self, queue: ActionQueue, guard: Guard, action_dim: int, *, fallback: str, max_action_age_ns: int
    ) -> None:
        self._queue = queue
        self._guard = guard
        self._action_dim = action_dim
        self._fallback = fallback
        self._max_action_age_ns = max_action_age_ns
        self._last_command: Float64Array | None = None
        self._forget = False
        self._stop_ticks = 0  # zeros still to command once paused or halted
        self.paused = True
        self.halted = False  # true when DEAD: never command again
        self.starved = ""  # why nothing was there to execute in the last tick; empty when something was
        self.measured: Float64Array | None = None  # newest joint positions `[action_dim]`, contract order

    def forget_command(self) -> None:
        """Take the measured position as reference of the next step: the robot was moved by somebody else."""
        self._forget = True  # carried out by the next tick: the one under way may still set its command

    def tick(self, now_ns: int) -> Tick:
        """Decide one control period."""
        if self._forget:
            self._forget = False
            self._last_command = None
        if self.halted or self.paused:
            self.starved = ""
            return self._stop()
        expired = self._queue.drop_captured_before(now_ns - self._max_action_age_ns)
        self._guard.refuse_for_age(expired)
        queued = self._queue.get()
        # A chunk may be merged between the two calls, hence the second look at the age.
        if queued is not None and now_ns - queued.source.capture_ns > self._max_action_age_ns:
            self._guard.refuse_for_age(1)
            expired, queued = expired + 1, None
        if queued is None:
            self.starved = "actions older than max_action_age_s" if expired else self.starved or "queue empty"
            return self._fall_back((AGE,) if expired else ())
        self.starved = ""
        reference = self.measured if self._last_command is None else self._last_command
        guarded = self._guard.check(queued.robot.astype(np.float64), reference)
        if guarded.action is None:
            return self._fall_back(guarded.interventions)
        self._last_command = guarded.action
        self._stop_ticks = STOP_TICKS
        age_s = (now_ns - queued.source.capture_ns) / 1e9
        return Tick(guarded.action, CommandSource.CHUNK, queued, age_s, guarded.interventions)

    def _stop(self) -> Tick:
        """Command nothing; a robot that keeps its last velocity in silence is told zero for a while first."""
        if self._fallback == "zero" and self._stop_ticks:
            self._stop_ticks -= 1
            return Tick(np.zeros(self._action_dim), CommandSource.ZERO)
        return Tick(None, CommandSource.NONE)

    def _fall_back(self, interventions: tuple[str, ...]) -> Tick:
        if self._last_command is not None and self._fallback == "repeat_last":
            return Tick(self._last_command, CommandSource.REPEAT_LAST, interventions=interventions)
        if self._fallback == "zero":
            return Tick(np.zeros(self._action_dim), CommandSource.ZERO, interventions=interventions)
        return Tick(None, CommandSource.NONE, interventions=interventions)
