# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The outcome of one control tick: what is commanded and where it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from remote_inference.robot.command import CommandSource, Float64Array
from remote_inference.robot.queue.plan import QueuedAction


@dataclass(frozen=True)
class Tick:
    """The outcome of one control tick. `command` is `[action_dim]`, None when nothing is to be published.

    `horizon` `[rows, action_dim]` begins with the command; the other rows are what the next ticks will
    command if nothing new arrives, none of them beyond the age bound.

    `queued` is the row whose time it is, and `row_fraction` how much of that time has passed: 0.0 in the tick
    in which it begins, and always when a row takes one tick.

    `in_force`: nothing is commanded, or not to all, and what was commanded before goes on, so silence is not
    in order. `ends`: destinations of the trajectory controllers that a hold is for. `late_ns`: how long ago
    [ns] the joints were where it holds them: a moving arm is beyond, and may take as long to come back.
    """

    command: Float64Array | None
    source: CommandSource
    queued: QueuedAction | None = None
    age_s: float = math.nan
    interventions: tuple[str, ...] = ()
    horizon: Float64Array | None = None
    row_fraction: float = 0.0
    shadow: bool = False  # nothing is published: this is what would have been commanded
    in_force: bool = False
    ends: tuple[str, ...] = ()
    late_ns: int = 0

    @classmethod
    def alone(cls, command: Float64Array, source: CommandSource, interventions: tuple[str, ...]) -> Tick:
        """Return a tick whose command no other follows, also for trajectory controllers."""
        return cls(command, source, interventions=interventions, horizon=command[np.newaxis])

    @property
    def goal(self) -> Float64Array | None:
        """The command `[action_dim]` for action servers, None when they keep their last goal."""
        if self.horizon is None or self.shadow or not self.reaches("position", ""):
            return None
        first: Float64Array = self.horizon[0]
        return first

    def reaches(self, kind: str, destination: str) -> bool:
        """Return whether a controller gets the command. kind: of the actions that it takes.

        A hold ends horizons: of the controllers of positions, all but those that it is for get nothing. Zeros
        are a stop for velocities and efforts; all others would have them for a target. What stops others
        leaves a switch as it is.
        """
        if kind == "switch":
            return self.source not in (CommandSource.HOLD, CommandSource.ZERO)
        if kind not in ("position", "pose"):
            return True
        if self.source is CommandSource.HOLD:
            return destination in self.ends
        return self.source is not CommandSource.ZERO
