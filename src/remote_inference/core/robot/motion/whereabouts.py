# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the joints are in a tick, as far as their last command, or what is measured, says it.

What was measured before a joint was on its way says nothing of where it is by now: each command, each
controller that goes or is back and each stall moves the instant from which on a measurement counts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.contract.actions import Actions
from remote_inference.core.robot.command import CommandSource, Float64Array
from remote_inference.core.robot.motion.control_word import ControlWord
from remote_inference.core.robot.motion.following import FollowingWatch
from remote_inference.core.robot.motion.horizon import Horizon
from remote_inference.core.robot.motion.step_reference import Joints, StepReference
from remote_inference.core.robot.motion.stopping import Moment
from remote_inference.core.robot.safety.guard import Guard
from remote_inference.core.robot.tick import Tick

RECENT_NS = 50_000_000  # age of a measurement that says where a moving arm is: two rounds of the worker
BY_HAND_NS = 100_000_000  # age of one that says where an arm is that a hand may have moved until now
IN_FORCE_NS = 500_000_000  # after a command, its joints may be on their way to it
CATCH_UP_SCALE = 0.5  # of the velocity limits, while controllers have farther to go than a step


class Whereabouts:
    """Knows which joints are where they were commanded, and when the others were measured. For one thread."""

    def __init__(
        self,
        actions: Actions,
        guard: Guard,
        reference: StepReference,
        horizon: Horizon,
        *,
        period_ns: int,
        max_action_age_ns: int,
        max_sensor_age_ns: int,
    ) -> None:
        """Build it for times [ns].

        max_action_age_ns: after so long without a command another node may have moved the robot.
        max_sensor_age_ns: an older measurement says nothing of where the joints are.
        """
        self._guard = guard
        self._masks = guard.masks
        self._reference = reference
        self._horizon = horizon
        self._period_ns = period_ns
        self._max_action_age_ns = max_action_age_ns
        self._max_sensor_age_ns = max_sensor_age_ns
        self._following = FollowingWatch(actions, guard.masks, period_ns / 1e9)
        self._word = ControlWord()  # of the tick in progress, or of the last one
        self._commanded_ns = 0  # time of the last command ...
        self._commanded_lag_ns = 0  # ... and the time beyond a period in which it is due
        self._led_to = np.full(len(guard.masks.holds), np.nan)  # the last command that moved a joint ...
        self._arrives_ns = 0  # ... and when it is due
        self._moved_ns = 0  # until then a joint whose command is forgotten may be on its way ...
        self._last_heard_ns = 0  # ... and until then one whose controller has gone
        self._found_since_ns = 0  # what was measured earlier says nothing of where a joint is in this tick
        self.unheard: Joints = np.zeros(len(guard.masks.holds), bool)
        """Mask `[action_dim]` of the actions that no controller listens to."""
        self.measured: Float64Array | None = None
        """Where the joints are in this tick `[action_dim]`, None when one of them may be anywhere."""
        self.astray: tuple[str, ...] = ()
        """Joints and poses that do not follow their commands."""
        self.lag_ns = 0
        """Time [ns] that trajectory controllers need beyond a period for this tick's step.

        It begins where a moving arm was measured so long ago, or at a last command that needs more, too.
        """

    @property
    def velocity_scale(self) -> float:
        """Fraction of the velocity limits that this tick's step may use.

        No controller is faster than a limit v, and the lag of each tick is shorter by a part f of a period: a
        command with the lag L leaves at most v L to go when the next tick comes, which adds (1 - f) v period
        to it and gives L - f period for it, beyond a period.
        """
        return CATCH_UP_SCALE if self.lag_ns or self._commanded_lag_ns else 1.0

    def command_in_force(self, now_ns: int) -> Float64Array | None:
        """Return the last command if joints may be on their way to it: it left a moment ago."""
        return self._reference.last if now_ns - self._commanded_ns <= IN_FORCE_NS + self._period_ns else None

    def listen(self, unheard: Joints) -> None:
        """Take the joints whose controllers hear nothing; that of a joint may have heard the last command."""
        if self._reference.last is not None and (unheard & ~self.unheard).any():
            self._last_heard_ns = self._commanded_ns + self._period_ns
        self.unheard = unheard

    def forget(self, now_ns: int) -> None:
        """Take no command of before for where the robot is: another may have moved it, by hand until now."""
        self._reference.forget()
        self._moved_ns = max(self._moved_ns, self._commanded_ns + self._period_ns, now_ns - BY_HAND_NS)
        self._following.forget()

    def look(self, now_ns: int, word: ControlWord, *, is_lost: bool, is_led: bool) -> bool:
        """Look where the joints are; return whether each follows, or is tried again, and may be led on.

        is_lost: another may have stopped the controllers, or moved the joints, until now. is_led: False while
        nothing that is commanded moves the arm.
        """
        self._word = word
        self._reference.lose(self.unheard)
        if is_lost:
            self._lose(now_ns)
        if now_ns - self._commanded_ns > self._max_action_age_ns:  # another node may have moved the robot
            self._lose(self._commanded_ns + self._period_ns)
        if self._reference.forgotten:  # as long as a horizon goes on, it moves the joints
            self._moved_ns = max(self._moved_ns, min(self._recent_ns(now_ns), self._horizon.end_ns))
        return self._look_for_astray_joints(now_ns, is_led=is_led)

    def moment(self, now_ns: int, *, halted: bool, is_late: bool) -> Moment:
        """Return what a tick knows before it decides. halted: the robot has given up. is_late: it waits."""
        oldest_ns = now_ns - self._max_sensor_age_ns
        return Moment(
            now_ns,
            halted,
            is_late,
            self.measured,
            self._find(now_ns, max(self._found_since_ns, oldest_ns)),
            self._find(now_ns, oldest_ns),
            self.unheard,
            ages_ns=now_ns - self._times_ns(now_ns),
            doubted=self._word.doubted,
        )

    def take(self, tick: Tick, now_ns: int) -> Tick:
        """Take what a tick commands: from then on the joints move. Return it with the time that they need."""
        spares_positions = tick.source is CommandSource.ZERO and self._guard.needs_position
        if tick.command is None or spares_positions:
            return tick
        is_hold = tick.source is CommandSource.HOLD  # which knows itself how old each measurement is
        late_ns = max(tick.late_ns, self._lag_left_ns(now_ns) if is_hold else self.lag_ns)
        if is_hold:
            late_ns = max(late_ns, self._way_ns(tick.command, now_ns) - self._period_ns)
        self._commanded_ns, self._commanded_lag_ns = now_ns, late_ns
        if self._horizon.is_used and not np.array_equal(tick.command, self._led_to):
            self._led_to, self._arrives_ns = tick.command, now_ns + self._period_ns + late_ns
        if tick.source is not CommandSource.CHUNK:  # until now its controllers went on along the rows
            self._moved_ns = max(self._moved_ns, min(now_ns, self._horizon.end_ns))
            ends = tick.ends if tick.source is CommandSource.HOLD else None
            self._horizon.end(self.unheard, is_whole=not tick.in_force, ends=ends)
        return tick if late_ns == tick.late_ns else replace(tick, late_ns=late_ns)

    def _way_ns(self, goal: Float64Array, now_ns: int) -> int:
        """Return the time [ns] that joints need, within limits, from where they are led to a goal."""
        if not self._horizon.is_used:
            return 0
        led_to = self._horizon.point(now_ns)
        if led_to is not None:
            return round(self._guard.way_s(led_to, goal) * 1e9)
        return max(0, self._arrives_ns - now_ns) + round(self._guard.way_s(self._led_to, goal) * 1e9)

    def _lose(self, moved_ns: int) -> None:
        """Take no joint for where it was commanded: until an instant [ns] another may have moved it."""
        self._reference.lose_all()
        self._moved_ns = max(self._moved_ns, moved_ns)

    def _recent_ns(self, now_ns: int) -> int:
        return now_ns - max(self._period_ns, RECENT_NS)

    def _look_for_astray_joints(self, now_ns: int, *, is_led: bool) -> bool:
        last = self._reference.last
        lost = blocked = np.zeros_like(self.unheard)
        age_ns = self._word.measured_age_ns(now_ns)
        recent_ns = self._recent_ns(now_ns)
        self.measured = self._of_one_sign(self._word.measured) if age_ns <= self._max_sensor_age_ns else None
        seen = self._find(now_ns, now_ns - self._max_sensor_age_ns)
        if not is_led:
            self._following.forget()
        elif last is not None and seen is not None and self._guard.needs_position:
            led, ages_s = self._reference.led, (now_ns - self._times_ns(now_ns)) / 1e9
            lost, blocked = self._following.look(last, seen, led, ages_s=ages_s, now_ns=now_ns)
            self._reference.stray(lost & ~self.unheard)
            self._reference.lose(lost)
        self.astray = self._following.astray
        # A command that is forgotten, or lost, may have moved the joints since they were measured.
        moved_ns = self._moved_ns if self._reference.forgotten else 0
        if self._reference.has_lost.any():
            moved_ns = max(moved_ns, self._last_heard_ns)
            # A trajectory controller that is back has gone on along its rows all the while.
            goes_on_ns = self._horizon.goes_on_ns(self._reference.has_lost & ~self.unheard)
            moved_ns = max(moved_ns, min(recent_ns, goes_on_ns))
        if lost.any():  # nor does an old position say where those are that did not follow: they may by now
            moved_ns = max(moved_ns, min(recent_ns, self._commanded_ns + self._period_ns))
        if now_ns - age_ns < moved_ns:
            self.measured = None
        self._found_since_ns = moved_ns
        self.lag_ns = self._find_lag_ns(now_ns, age_ns)
        if self.measured is None:  # whether a joint that did not follow has moved, nobody knows
            return not self.astray
        return not blocked.any()

    def _find_lag_ns(self, now_ns: int, age_ns: int) -> int:
        if not self._horizon.is_used:  # other controllers are where they were told to be
            return 0
        lag_ns = self._lag_left_ns(now_ns)
        begin_where_measured = (self._reference.has_lost | self._reference.forgotten) & ~self.unheard
        if self.measured is None or not begin_where_measured.any():
            return lag_ns
        moved_ns = max(self._arrives_ns, self._horizon.goes_on_ns(begin_where_measured))
        return max(lag_ns, age_ns) if now_ns - age_ns < moved_ns else lag_ns

    def _lag_left_ns(self, now_ns: int) -> int:
        caught_up_ns = round((1.0 - CATCH_UP_SCALE) * (now_ns - self._commanded_ns))
        return max(0, self._commanded_lag_ns - caught_up_ns)

    def _find(self, now_ns: int, oldest_ns: int) -> Float64Array | None:
        """Return where each joint was measured since an instant, NaN for the others; None: nobody knows."""
        word = self._word
        positions = self._of_one_sign(word.measured if word.positions is None else word.positions)
        return None if positions is None else np.where(self._times_ns(now_ns) >= oldest_ns, positions, np.nan)

    def _times_ns(self, now_ns: int) -> NDArray[np.int64]:
        """Return when each joint was measured last `[action_dim]`."""
        if self._word.positions_ns is not None:
            return self._word.positions_ns
        return np.full(len(self.unheard), now_ns - self._word.measured_age_ns(now_ns))

    def _of_one_sign(self, measured: Float64Array | None) -> Float64Array | None:
        """Return what is measured, a pose's quaternion with the sign of the last command's.

        A pose without an orientation says nothing of where the robot is.
        """
        if measured is None or not self._masks.poses.exist:
            return measured
        return self._masks.poses.unify(measured, self._reference.last)
