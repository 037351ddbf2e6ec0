# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The rows ahead that trajectory controllers may execute by themselves if ticks fail to come."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from remote_inference.core.robot.command import BoolArray, Float64Array
from remote_inference.core.robot.motion.step_reference import Joints, StepReference
from remote_inference.core.robot.queue.interpolation import Interpolation
from remote_inference.core.robot.safety.guard import Foreseen, Guard

EARLY_TICK = 0.1  # fraction of a period by which a tick may come too early


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
        self._given: Foreseen | None = None  # in the last tick that commanded ...
        self._executed = 0  # rows of it that are skipped already
        self._command = np.empty(0)  # ... behind which command ...
        self._given_ns = 0  # ... when ...
        self._episode_id = 0  # ... and of which episode
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
        alone: bool = False,
    ) -> Float64Array:
        """Return a tick's command and the guarded rows after it `[rows, action_dim]`.

        scale: of the velocity limits. unheard: mask `[action_dim]` of actions whose controllers get nothing.
        alone: without the rows.
        """
        if not self.is_used:
            return command[np.newaxis]
        foresight = self._interpolation.foresee()
        fresh = 0
        for ahead, queued in enumerate(() if alone else foresight.rows, start=1):
            at_ns = now_ns + ahead * self._period_ns
            if at_ns - queued.source.capture_ns > self._max_action_age_ns:
                break
            fresh = ahead
        self._given = Foreseen.none()
        if fresh:
            self._given = self._guard.foresee(foresight.points[:fresh], command, velocity_scale=scale)
        self._command, self._given_ns, self._episode_id = command, now_ns, episode_id
        self._executed = 0
        self.end_ns = now_ns + (1 + len(self._given.actions)) * self._period_ns
        self._rows_end_ns[self._joints & ~unheard] = self.end_ns
        return np.concatenate([command[np.newaxis], self._given.actions.reshape(-1, len(command))])

    def goes_on_ns(self, joints: Joints) -> int:
        """Return until when controllers of these joints may go on along rows that nothing replaced [ns]."""
        return int(self._rows_end_ns[joints].max(initial=0))

    def keep(self) -> None:
        """Remember what the controllers have by now, for `take_back`."""
        self._kept = (
            self._given,
            self._executed,
            self._command,
            self._given_ns,
            self._episode_id,
            self.end_ns,
            self._rows_end_ns.copy(),
        )

    def take_back(self) -> None:
        """Take that nothing left since `keep`: the controllers have what they had then."""
        (
            self._given,
            self._executed,
            self._command,
            self._given_ns,
            self._episode_id,
            self.end_ns,
            self._rows_end_ns,
        ) = self._kept

    def end(self, unheard: Joints, *, is_whole: bool, ends: Collection[str] | None = None) -> None:
        """Take that another command has replaced the rows.

        is_whole: of all controllers that hear it. ends: destinations of those that got it; None: all.
        """
        self._given = None
        for destination, joints in self.controllers.items():
            if ends is None or destination in ends:
                self._rows_end_ns[joints & ~unheard] = 0
        if is_whole and not (self._joints & unheard).any():
            self.end_ns = 0

    def catch_up(self, reference: StepReference, now_ns: int, *, is_known: bool) -> None:
        """Skip the rows that controllers executed since the last tick, and count their clamps.

        They go on as long as nothing else is commanded. is_known: False when another may have stopped them;
        the rows' time has passed all the same.
        """
        given = self._given
        if given is None:
            return
        passed = (now_ns - self._given_ns) / self._period_ns - 1.0  # periods since the command was reached
        # Rounded down: no row counts before the controller has reached it.
        missed = max(0, min(int(passed + EARLY_TICK), len(given.actions)))
        executed, self._executed = self._executed, missed
        ticks_ns = [self._given_ns + tick * self._period_ns for tick in range(executed + 1, missed + 1)]
        self._interpolation.skip(ticks_ns, self._episode_id)
        if not is_known:
            return
        if passed > 0.0:
            reference.reach(self._joints, self._point(given.actions, max(passed, missed)))
        for interventions in given.interventions[executed:missed]:
            self._guard.count(interventions)

    def _point(self, ahead: Float64Array, periods: float) -> Float64Array:
        """Return where controllers are some periods after the command, on their way from row to row."""
        rows = np.concatenate([self._command[np.newaxis], ahead.reshape(-1, len(self._command))])
        row = min(int(periods), len(rows) - 1)
        following = rows[min(row + 1, len(rows) - 1)]
        point: Float64Array = rows[row] + (periods - row) * (following - rows[row])
        return point
