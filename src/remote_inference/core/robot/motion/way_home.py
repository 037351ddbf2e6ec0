# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How a robot that gives up is led home, and what ends the way before."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from remote_inference.core.contract.contract import Contract
from remote_inference.core.robot.command import CommandSource
from remote_inference.core.robot.motion.goal_gate import last_goal_s
from remote_inference.core.robot.motion.homing import Homing
from remote_inference.core.robot.motion.step_reference import StepReference
from remote_inference.core.robot.motion.stopping import Moment, Stopping
from remote_inference.core.robot.safety.guard import FOLLOWING_ERROR, SENSOR_AGE, Guard
from remote_inference.core.robot.tick import Tick


class WayHome:
    """The one way home of a robot, tick by tick. For the control thread.

    It ends when there is no home or no controller listens, and for an arm that is not measured any more, or
    does not follow: nobody is there to look at it.
    """

    def __init__(
        self,
        contract: Contract,
        guard: Guard,
        reference: StepReference,
        stopping: Stopping,
        *,
        stops_in_all: int,
    ) -> None:
        """stops_in_all: commands in a row that end what was commanded."""
        self._home = contract.home
        self._names = contract.actions.names
        self._guard = guard
        self._masks = guard.masks
        self._reference = reference
        self._stopping = stopping
        at_home_s = last_goal_s(contract) if contract.home else 0.0
        # Its last step is commanded as often as a stop is, and until action servers have it.
        self._ticks_at_home = max(stops_in_all, math.ceil(at_home_s / contract.period_s))
        way_s = Homing.longest_s(contract.home, contract.actions) if contract.home else 0.0
        self.longest_s = way_s + at_home_s
        """How long it lasts [s] from anywhere within the limits if every tick comes."""
        self._path: Homing | None = None
        self._home_ticks = 0  # that commanded home
        self.ended = False
        """Whether home is reached, or the robot must not be moved there."""
        self.stranded = ""
        """Why it ended before, in words."""

    @property
    def exists(self) -> bool:
        """Whether the contract has a home."""
        return self._home is not None

    def go(self, moment: Moment, *, astray: Sequence[str], stuck_ns: int, velocity_scale: float) -> Tick:
        """Command the next point of the way, or end the way for good.

        astray: joints and poses that do not follow. stuck_ns: time without a tick before this one in which
        another may have stopped the controllers, else 0. velocity_scale: fraction of the limits that is
        allowed.
        """
        if self._home is None:
            return self._end(moment, "")
        if self._reference.last is None:
            return self._end(moment, "this node never commanded it")
        if (moment.unheard & self._masks.holds).any():
            return self._end(moment, "no controller hears its commands")
        start = self._reference.start(moment.measured)
        if moment.measured is None or start is None:
            self._guard.refuse(SENSOR_AGE)
            # It may have moved since, or one message is wrong.
            if not stuck_ns and (moment.doubted or self._is_measured_lately(moment)):
                return self._stopping.stop(moment, (SENSOR_AGE,))
            stuck = f"since its control thread stood still for {stuck_ns / 1e9:.2f} s"
            since = stuck if stuck_ns else "lately"
            return self._end(moment, f"it has not been measured {since}", (SENSOR_AGE,))
        strays = self._reference.strays
        if strays.any() and not astray:  # it has moved since, and its last command is elsewhere
            astray = tuple(name for name, is_astray in zip(self._names, strays, strict=True) if is_astray)
        if astray:
            self._guard.refuse(FOLLOWING_ERROR)
            return self._end(
                moment, f"{', '.join(astray)}: it does not follow its commands", (FOLLOWING_ERROR,)
            )
        if self._path is None:
            self._path = Homing(start, self._home, moment.now_ns, self._masks)
        target = self._path.target(moment.now_ns)
        begin = np.where(self._masks.holds, start, 0.0)
        guarded = self._guard.check(target, begin, velocity_scale=velocity_scale)
        if guarded.action is None:  # only when the reference is not finite
            return self._end(moment, "its last command is no number", guarded.interventions)
        self._reference.take(guarded.action, moment.unheard)
        self._home_ticks += self._path.reached(guarded.action)
        self.ended = self._home_ticks >= self._ticks_at_home
        if self.ended:  # home was commanded at least as often as a stop is
            self._stopping.owe_nothing()
        else:  # whoever ends the way: a trajectory controller is told to stay where its joints are
            self._stopping.owe()
        return Tick.alone(guarded.action, CommandSource.HOMING, guarded.interventions)

    def _is_measured_lately(self, moment: Moment) -> bool:
        return moment.seen is not None and bool(np.isfinite(moment.seen[self._masks.holds]).all())

    def _end(self, moment: Moment, stranded: str, interventions: tuple[str, ...] = ()) -> Tick:
        self.ended = True
        self.stranded = stranded
        return self._stopping.stop(moment, interventions)
