# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The rows ahead that trajectory controllers may execute by themselves if ticks fail to come."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from remote_inference.core.robot.command import BoolArray, Float64Array
from remote_inference.core.robot.motion.step_reference import Joints, StepReference
from remote_inference.core.robot.queue.interpolation import Interpolation
from remote_inference.core.robot.safety.guard import Foreseen, Guard

EARLY_TICK = 0.1  # fraction of a period by which a tick may come too early


@dataclass(frozen=True)
class _Handed:
    """A command, the rows after it, and a period before the command is due. episode_id: of the rows."""

    rows: Foreseen
    command: Float64Array
    at_ns: int
    episode_id: int

    @cached_property
    def points(self) -> Float64Array:
        """The command and the rows `[1 + rows, action_dim]`."""
        return np.concatenate([self.command[np.newaxis], self.rows.actions.reshape(-1, len(self.command))])

    def point(self, periods: float) -> Float64Array:
        """Return where controllers are some periods after the command, on their way from row to row."""
        row = min(int(periods), len(self.points) - 1)
        following = self.points[min(row + 1, len(self.points) - 1)]
        point: Float64Array = self.points[row] + (periods - row) * (following - self.points[row])
        return point


class Horizon:
    """Hands rows over in each tick, and skips those that were executed in periods without a tick.

    For the control thread.
    """

    def __init__(
        self,
        controllers: Mapping[str, BoolArray],
        interpolation: Interpolation,
        guard: Guard,
        *,
        period_ns: int,
        max_action_age_ns: int,
    ) -> None:
        """Build it. controllers: of trajectories, by destination: masks `[action_dim]` of their joints."""
        self.controllers = controllers
        self._joints = np.logical_or.reduce([*controllers.values()])  # of all; without any just False
        self._interpolation = interpolation
        self._guard = guard
        self._period_ns = period_ns
        self._max_action_age_ns = max_action_age_ns
        self._handed: _Handed | None = None  # in the last tick that commanded
        self._executed = 0  # rows of it that are skipped already
        self.end_ns = 0  # when the controllers have executed all that they were handed
        # The same of each joint, 0 when its controller was told something else since.
        self._rows_end_ns = np.zeros(len(guard.masks.holds), np.int64)
        self.keep()

    @property
    def is_used(self) -> bool:
        """Whether any controller takes rows ahead."""
        return bool(self.controllers)

    def hand_over(
        self,
        command: Float64Array,
        now_ns: int,
        scale: float,
        episode_id: int,
        *,
        unheard: Joints,
        alone: bool,
        lag_ns: int,
    ) -> Float64Array:
        """Return a tick's command and the guarded rows after it `[rows, action_dim]`.

        scale: of the velocity limits. unheard: mask `[action_dim]` of actions whose controllers get nothing.
        alone: without the rows. lag_ns: time beyond a period until the command is due.
        """
        if not self.is_used:
            return command[np.newaxis]
        foresight = self._interpolation.foresee()
        fresh = 0
        for ahead, queued in enumerate(() if alone else foresight.rows, start=1):
            at_ns = now_ns + lag_ns + ahead * self._period_ns
            if at_ns - queued.source.capture_ns > self._max_action_age_ns:
                break
            fresh = ahead
        rows = Foreseen.none()
        if fresh:
            rows = self._guard.foresee(foresight.points[:fresh], command, velocity_scale=scale)
        self._handed = _Handed(rows, command, now_ns + lag_ns, episode_id)
        self._executed = 0
        self.end_ns = now_ns + lag_ns + len(self._handed.points) * self._period_ns
        self._rows_end_ns = np.where(self._joints & ~unheard, self.end_ns, self._rows_end_ns)
        return self._handed.points

    def point(self, now_ns: int) -> Float64Array | None:
        """Return where controllers are by now that went on along their rows, None if they have none."""
        if self._handed is None:
            return None
        return self._handed.point(max(0.0, (now_ns - self._handed.at_ns) / self._period_ns - 1.0))

    def goes_on_ns(self, joints: Joints) -> int:
        """Return until when controllers of these joints may go on along rows that nothing replaced [ns]."""
        return int(self._rows_end_ns[joints].max(initial=0))

    def keep(self) -> None:
        """Remember what the controllers have by now, for `take_back`."""
        self._kept = self._handed, self._executed, self.end_ns, self._rows_end_ns

    def take_back(self) -> None:
        """Take that nothing left since `keep`: the controllers have what they had then."""
        self._handed, self._executed, self.end_ns, self._rows_end_ns = self._kept

    def end(self, unheard: Joints, *, is_whole: bool, ends: Collection[str] | None = None) -> None:
        """Take that another command has replaced the rows.

        is_whole: of all controllers that hear it. ends: destinations of those that got it; None: all.
        """
        self._handed = None
        for destination, joints in self.controllers.items():
            if ends is None or destination in ends:
                self._rows_end_ns = np.where(joints & ~unheard, 0, self._rows_end_ns)
        if is_whole and not (self._joints & unheard).any():
            self.end_ns = 0

    def catch_up(self, reference: StepReference, now_ns: int, *, is_known: bool) -> None:
        """Skip the rows that controllers executed since the last tick, and count their clamps.

        They go on as long as nothing else is commanded. is_known: False when another may have stopped them;
        the rows' time has passed all the same.
        """
        handed = self._handed
        if handed is None:
            return
        passed = (now_ns - handed.at_ns) / self._period_ns - 1.0  # periods since the command was reached
        # Rounded down: no row counts before the controller has reached it.
        missed = max(0, min(int(passed + EARLY_TICK), len(handed.rows.actions)))
        executed, self._executed = self._executed, missed
        ticks_ns = [handed.at_ns + tick * self._period_ns for tick in range(executed + 1, missed + 1)]
        self._interpolation.skip(ticks_ns, handed.episode_id)
        if not is_known:
            return
        if passed > 0.0:
            reference.reach(self._joints, handed.point(max(passed, missed)))
        for interventions in handed.rows.interventions[executed:missed]:
            self._guard.count(interventions)
