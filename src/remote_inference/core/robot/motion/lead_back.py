# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Leads what does not follow its commands back to where it is measured, a step in each tick.

A measurement that is wrong, and within reach, then throws no arm there. One that drifts, or jumps to and fro,
takes the arm along at the velocity limit: a robot that is led back for much longer than the way needs stops.
"""

from __future__ import annotations

import numpy as np

from remote_inference.core.robot.command import CommandSource, Float64Array
from remote_inference.core.robot.motion.step_reference import StepReference
from remote_inference.core.robot.motion.stopping import Stopping
from remote_inference.core.robot.safety.guard import FOLLOWING_ERROR, Guard
from remote_inference.core.robot.tick import Tick

MOST_WAYS, MARGIN_S = 2.0, 0.5  # times the time of the way, and beyond: for ticks without a measurement
LEAK = 0.1  # of the time without a way back, which makes up for as much time on one


class LeadBack:
    """The way back of joints, tick by tick. For the control thread."""

    def __init__(
        self,
        names: tuple[str, ...],
        guard: Guard,
        reference: StepReference,
        stopping: Stopping,
        *,
        period_ns: int,
    ) -> None:
        """names: of the actions. period_ns: of a tick."""
        self._period_ns = period_ns
        self._names = names
        self._guard = guard
        self._reference = reference
        self._stopping = stopping
        self._spent_ns = 0  # on ways back, less what made up for it ...
        self._most_ns = 0  # ... and what may be at most
        self._goes_back = False  # in the last tick

    def go(self, measured: Float64Array | None, velocity_scale: float) -> Tick | None:
        """Return the next step of the way; None when the joints follow, or are near, or not measured.

        velocity_scale: fraction of the velocity limits that is allowed now.
        """
        went_back = self._goes_back
        way = self._reference.way_back(measured)
        step = None if way is None else self._guard.approach(way[1], way[0], velocity_scale)
        self._goes_back = way is not None and step is not None
        if way is None or step is None:
            self._spent_ns = max(0, self._spent_ns - round(LEAK * self._period_ns))
            return None
        if not went_back:
            most_ns = round((MOST_WAYS * self._guard.way_s(*way) + MARGIN_S) * 1e9)
            self._most_ns = max(most_ns, self._most_ns if self._spent_ns else 0)
        self._spent_ns += self._period_ns
        self._guard.refuse(FOLLOWING_ERROR)
        self._stopping.owe()
        self._reference.last = step = np.where(self._guard.masks.goes_on, 0.0, step)
        return Tick.alone(step, CommandSource.REPEAT_LAST, (FOLLOWING_ERROR,))

    def limit(self, command: Float64Array, velocity_scale: float) -> Float64Array:
        """Return a command, one step from the last one at most also where it begins at a measurement."""
        last = self._reference.last
        if last is None or self._reference.forgotten or not self._reference.strays.any():
            return command
        others = ~self._reference.strays
        step = self._guard.approach(command, np.where(others, command, last), velocity_scale)
        return command if step is None else step

    def find_problem(self) -> str:
        """Return why the robot must stop, or an empty string: what is led back goes away from there."""
        if self._spent_ns <= self._most_ns:
            return ""
        self._spent_ns = 0
        self._reference.distrust(self._reference.strays)
        strays = zip(self._names, self._reference.strays.tolist(), strict=True)
        return (
            f"following: {', '.join(name for name, is_astray in strays if is_astray)}: led back for too long"
        )
