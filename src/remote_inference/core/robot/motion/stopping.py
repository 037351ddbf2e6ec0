# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a robot is commanded that has nothing to execute: the fallback, and how what was in force ends.

Velocities and efforts get zero until their controllers have heard it often enough; trajectories end where
their joints are; positions, poses and switches stay by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.robot.action_masks import ActionMasks
from remote_inference.core.robot.command import CommandSource, Float64Array
from remote_inference.core.robot.fallbacks import FALLBACKS
from remote_inference.core.robot.motion.horizon import Horizon
from remote_inference.core.robot.motion.step_reference import Joints, StepReference
from remote_inference.core.robot.safety.guard import SENSOR_AGE, Guard, Guarded
from remote_inference.core.robot.tick import Tick

MOST_LAG_S = 0.5  # by which a joint may be behind its command when it is found not to follow


@dataclass(frozen=True)
class Moment:
    """What a control tick knows before it decides.

    halted: the robot has given up. is_late: the tick waits for what is to be heard. measured: where the
    joints are, `[action_dim]`, None when one may be anywhere. found: the same of each joint by itself, NaN of
    one that may be anywhere. seen: where each was measured lately. unheard: mask `[action_dim]` of the
    actions that no controller listens to. ages_ns: of what was measured of each. doubted: what is measured is
    not believed, yet.
    """

    now_ns: int
    halted: bool
    is_late: bool
    measured: Float64Array | None
    found: Float64Array | None
    seen: Float64Array | None
    unheard: Joints
    ages_ns: NDArray[np.int64]
    doubted: bool = False


class Stopping:
    """The fallback and the stops that follow a command. For the control thread."""

    def __init__(
        self,
        fallback: str,
        masks: ActionMasks,
        reference: StepReference,
        guard: Guard,
        horizon: Horizon,
        *,
        period_s: float,
        stops_in_all: int,
        unseen_in_all: int,
    ) -> None:
        """masks: of the actions. stops_in_all: commands in a row that end what was commanded.

        unseen_in_all: ticks in a row in which rows that have ended wait for a measurement of their joints.
        """
        self._fallback = FALLBACKS.get(fallback)()
        self._reference = reference
        self._guard = guard
        self._horizon = horizon
        self._stops_in_all = stops_in_all
        self._lag_periods = MOST_LAG_S / period_s
        self._unseen_in_all = unseen_in_all
        self._is_switch = masks.is_switch
        self._holds = masks.holds
        self._goes_on = masks.goes_on
        self.has_others = bool(self._goes_on.any())  # actions that go on in silence until they get zero
        safe = self._fallback.action_kinds
        self._is_stood_in = np.array([kind in safe for kind in masks.kinds])  # others: zeros
        self._left = 0  # stops still to command once there is nothing to execute ...
        self._holds_left = dict.fromkeys(horizon.controllers, 0)  # ... and holds, by controller
        self._unseen: dict[str, int] = {}  # ticks in a row that waited for a measurement, by controller
        self.keep()

    @property
    def left(self) -> bool:
        """Whether anything that was commanded has still to be ended."""
        return any((self._left, *self._holds_left.values()))

    def keep(self) -> None:
        """Remember what has still to be ended, for `take_back`."""
        self._kept = self._left, dict(self._holds_left)

    def take_back(self) -> None:
        """Take that nothing left since `keep`, neither a stop nor what has to be ended."""
        self._left, self._holds_left = self._kept

    def owe(self) -> None:
        """Note that something was commanded which has to be ended."""
        self._owe(self._stops_in_all)

    def owe_nothing(self) -> None:
        """Note that what was commanded last has ended by itself."""
        self._owe(0)

    def _owe(self, stops: int) -> None:
        self._left = stops
        self._holds_left = dict.fromkeys(self._holds_left, stops)
        self._unseen = {}

    def fall_back(self, moment: Moment, interventions: tuple[str, ...]) -> Tick:
        """Return what the fallback commands in place of an action."""
        last = self._reference.last
        if last is None:  # before the first action another node may drive the robot
            return self.stop(moment, interventions)
        start = self._reference.start(moment.measured)
        command = self._fallback.command(last, None if self._reference.forgotten else start)
        if command is None:
            return self.stop(moment, interventions)
        return self._stand_in(moment, command, start, interventions)

    def stop(self, moment: Moment, interventions: tuple[str, ...] = ()) -> Tick:
        """Command nothing; a robot that goes on without commands first gets stop commands for a while."""
        if not self.left:
            return Tick(None, CommandSource.NONE, interventions=interventions)
        last = self._reference.last
        assert last is not None, "stops follow a command"
        command = self._fallback.stop(last)
        if command is not None:
            self._count(moment)
            self._owe(self._left)
            return self._stand_in(moment, command, self._reference.start(moment.measured), interventions)
        if any(self._holds_left.values()):
            return self._hold(moment, interventions)
        self._count_silent(moment)
        return self.stop_others(interventions)

    def stop_others(self, interventions: tuple[str, ...], *, in_force: bool = False) -> Tick:
        """Command zeros to controllers of velocities and efforts, if there are any, and nothing else.

        in_force: the positions' controllers go on.
        """
        if not self.has_others:
            return Tick(None, CommandSource.NONE, interventions=interventions, in_force=in_force)
        zeros = Tick.alone(self._reference.stop_others(), CommandSource.ZERO, interventions)
        return replace(zeros, in_force=in_force)

    def _hold(self, moment: Moment, interventions: tuple[str, ...]) -> Tick:
        """End what trajectory controllers execute, each where its joints are by now.

        One that does not hear it, or whose joints may be anywhere, is tried again until its rows end by
        themselves; the others do not wait for it. Rows that have ended may have led an arm nowhere whose
        drives are off: it is told where its joints are, unless they are not measured for many ticks. Ticks,
        for a process that stood still has measured nothing meanwhile either. A robot that has given up waits
        for none. One that was told often enough is told no more: a person may move its arm.
        """
        if moment.is_late:
            return self.stop_others(interventions, in_force=True)
        self._count_silent(moment)
        last = self._reference.last
        assert last is not None, "stops follow a command"
        rest, moves, ends, late_ns = last, self._goes_on, [], 0
        for destination, joints in self._horizon.controllers.items():
            if not self._holds_left[destination]:
                continue
            found = self._reference.rest(joints, moment.found, moment.seen, moment.unheard)
            if found is None and SENSOR_AGE not in interventions:
                self._guard.refuse(SENSOR_AGE)
                interventions = (*interventions, SENSOR_AGE)
            if found is not None and (moment.halted or not (moment.unheard & joints).any()):
                self._holds_left[destination] -= 1
                found = self._find_near(found, joints)
                rest, moves = np.where(joints, found, rest), moves | joints
                ends.append(destination)
                where_measured = self._reference.has_lost & joints
                late_ns = int(moment.ages_ns[where_measured].max(initial=late_ns))
            elif moment.now_ns >= self._horizon.goes_on_ns(joints):
                seen = self._reference.rest(joints, moment.seen, moment.seen, moment.unheard)
                self._unseen[destination] = 0 if seen is not None else self._unseen.get(destination, 0) + 1
                patience = 1 if moment.halted else self._unseen_in_all
                if found is not None or self._unseen[destination] >= patience:
                    self._holds_left[destination] = 0
        in_force = any(left for destination, left in self._holds_left.items() if destination not in ends)
        if not ends:
            return self.stop_others(interventions, in_force=in_force)
        # Where they are, also outside their limits: a stop leads no arm anywhere. Other joints get nothing,
        # and so their next step begins where it would have.
        self._reference.last = np.where(moves, np.where(self._goes_on, 0.0, rest), last)
        # A measurement that goes on and on would take the arm along, stop after stop.
        self._reference.distrust(moves)
        hold = Tick.alone(self._reference.last, CommandSource.HOLD, interventions)
        return replace(hold, ends=tuple(ends), in_force=in_force, late_ns=late_ns)

    def _find_near(self, found: Float64Array, joints: Joints) -> Float64Array:
        """Return where joints are held, of which those that do not follow go no farther than they may lag.

        Their drives are off, and they stay where they are measured, or what is measured is wrong.
        """
        strays, last = self._reference.strays & joints, self._reference.last
        if not strays.any() or last is None:
            return found
        near = self._guard.approach(np.where(strays, found, last), last, self._lag_periods)
        return found if near is None else np.where(strays, near, found)

    def _stand_in(
        self,
        moment: Moment,
        command: Float64Array,
        start: Float64Array | None,
        interventions: tuple[str, ...],
    ) -> Tick:
        """Command what the fallback returned, within the guard; kinds that it is not for get zeros, a stop.

        Switches stay at their last command.
        """
        last = self._reference.last
        assert last is not None, "a fallback stands in after a command"
        command = np.where(self._is_switch, last, np.where(self._is_stood_in, command, 0.0))
        # From where zeros are no step: a stop is never limited.
        start = None if start is None else np.where(self._is_stood_in, start, 0.0)
        guarded = self._check(command, start)
        interventions = (*interventions, *guarded.interventions)
        if guarded.action is None:
            return self.stop_others(interventions)
        command = guarded.action
        self._reference.take(command, moment.unheard)
        return Tick.alone(command, self._fallback.source, interventions)

    def _check(self, command: Float64Array, start: Float64Array | None) -> Guarded:
        """Return a command within the guard; one that leads no joint anywhere passes outside limits, too."""
        if start is not None and not command[self._goes_on].any():
            held = command[self._holds]
            if np.isfinite(held).all() and np.array_equal(held, start[self._holds]):
                return Guarded(command)
        return self._guard.check(command, start)

    def _count(self, moment: Moment) -> None:
        """Count a stop, unless a controller that goes on in silence does not hear it: it may come back.

        A robot that has given up waits for nobody.
        """
        if moment.halted or not (moment.unheard & self._goes_on).any():
            self._left = max(0, self._left - 1)

    def _count_silent(self, moment: Moment) -> None:
        """Count a stop that nothing but zeros is sent for: a position controller keeps its last target."""
        if self.has_others:
            self._count(moment)
        else:
            self._left = 0
