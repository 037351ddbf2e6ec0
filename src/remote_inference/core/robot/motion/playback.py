# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the robot is commanded in each control tick: the queue's next point, guarded, or the fallback."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from remote_inference.core.contract.commands.sink import CommandSink
from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.controller_stop import count_stops, longest_stopping_s
from remote_inference.core.robot.command import CommandSource, Float64Array
from remote_inference.core.robot.motion.blend_in import BlendIn
from remote_inference.core.robot.motion.control_word import ControlPanel, ControlWord
from remote_inference.core.robot.motion.horizon import Horizon
from remote_inference.core.robot.motion.human_commands import HumanCommands
from remote_inference.core.robot.motion.lateness import Lateness
from remote_inference.core.robot.motion.lead_back import LeadBack
from remote_inference.core.robot.motion.shadow import ShadowComparison
from remote_inference.core.robot.motion.step_reference import StepReference
from remote_inference.core.robot.motion.stopping import Moment, Stopping
from remote_inference.core.robot.motion.way_home import WayHome
from remote_inference.core.robot.motion.whereabouts import Whereabouts
from remote_inference.core.robot.queue.action_queue import ActionQueue
from remote_inference.core.robot.queue.interpolation import Interpolation
from remote_inference.core.robot.safety.guard import (
    AGE,
    FOLLOWING_ERROR,
    SENSOR_AGE,
    Guard,
    InterventionLatch,
)
from remote_inference.core.robot.safety.hearing import UNHEARD_NS
from remote_inference.core.robot.safety.measurement_gate import FIRST_S
from remote_inference.core.robot.safety.stop_inputs import StopInputs
from remote_inference.core.robot.safety.switches import SwitchClock
from remote_inference.core.robot.tick import Tick
from remote_inference.core.robot.turn import Turn

HURRY_NS = 5_000_000  # from a tick's decision to its command: Python's threads wait so long for each other
AGED_OUT = "actions older than max_action_age_s"
END_MARGIN_S = 1.0  # beyond the time that the last commands take if every tick comes

NOT_FOLLOWED = "{}: the arm does not follow"

_WAIT = Tick(None, CommandSource.NONE, in_force=True)  # of a late tick: the node hears first what happened


class Playback:
    """Pops, guards and falls back. The control thread calls `tick` and `listen`; others change `control`.

    A tick is one turn: what others share with it stays as it is meanwhile.
    """

    def __init__(
        self,
        queue: ActionQueue,
        guard: Guard,
        contract: Contract,
        *,
        fallback: str,
        max_action_age_ns: int,
        max_sensor_age_ns: int,
        given_up_after_ns: int,
        late_after_ns: int | None = None,
        stops: StopInputs | None = None,
        human: HumanCommands | None = None,
        shadow: ShadowComparison | None = None,
        blend_in: BlendIn | None = None,
        latch: InterventionLatch | None = None,
        turn: Turn | None = None,
    ) -> None:
        """Build it. stops: end the commands at once. human: for takeovers. shadow: nothing is published.

        max_sensor_age_ns: an older measurement says nothing of where the joints are. given_up_after_ns: after
        so long without a tick the command watchdog may have stopped the controllers. late_after_ns: after so
        long, or when nothing was heard for UNHEARD_NS, the first tick leads no robot on that the watchdog may
        have stopped: it may have lost beats before, and its word be on the way. None: however late a tick is.
        """
        self._turn = turn or Turn()
        self._stops = stops or StopInputs({}, self._turn)
        self._human = human
        self._shadow = shadow
        self._guard = guard
        self._contract = contract
        self._interpolation = Interpolation(
            queue,
            contract.action_units,
            contract.ticks_per_row,
            is_linear=contract.interpolation == "linear",
            masks=guard.masks,
        )
        period_ns = round(contract.period_s * 1e9)
        self._horizon = Horizon(
            {
                sink.destination: _taken_by(contract, [sink])
                for sink in contract.commands
                if sink.interface.takes_horizon
            },
            self._interpolation,
            guard,
            period_ns=period_ns,
            max_action_age_ns=max_action_age_ns,
        )
        self._masks = guard.masks
        self._max_action_age_ns = max_action_age_ns
        self._given_up_after_ns = given_up_after_ns
        self._lateness = Lateness(
            given_up_after_ns, given_up_after_ns if late_after_ns is None else late_after_ns
        )
        # Trajectory controllers go on meanwhile: what begins behind them would lead them back.
        goes_on_ns = max(period_ns // 2, HURRY_NS) if self._horizon.is_used else UNHEARD_NS
        self._outdated_after_ns = min(UNHEARD_NS, goes_on_ns)
        self._follows_person = False  # the last command is a person's
        self._reference = StepReference(guard.masks)
        self._joints = Whereabouts(
            contract.actions,
            guard,
            self._reference,
            self._horizon,
            period_ns=period_ns,
            max_action_age_ns=max_action_age_ns,
            max_sensor_age_ns=max_sensor_age_ns,
        )
        stops_in_all = count_stops(contract.period_s)
        self._stopping = Stopping(
            fallback,
            guard.masks,
            self._reference,
            guard,
            self._horizon,
            period_s=contract.period_s,
            stops_in_all=stops_in_all,
            # A measurement may have to be confirmed before it says where a joint is.
            unseen_in_all=math.ceil((max_sensor_age_ns / 1e9 + FIRST_S) / contract.period_s),
        )
        self._way_back = LeadBack(
            contract.actions.names, guard, self._reference, self._stopping, period_ns=period_ns
        )
        self._way_home = WayHome(contract, guard, self._reference, self._stopping, stops_in_all=stops_in_all)
        self.longest_stopping_s = longest_stopping_s(contract.period_s) + END_MARGIN_S
        self.longest_end_s = self._way_home.longest_s + self.longest_stopping_s
        self._switch_clock = SwitchClock(contract.actions, guard.masks)
        # They note what is commanded, and take it back if it does not leave.
        self._blend_in = blend_in or BlendIn(1.0, 0)
        self._keepers = (
            self._lateness,
            self._horizon,
            self._stopping,
            self._reference,
            self._switch_clock,
            self._blend_in,
        )
        self._latch = latch or InterventionLatch(0.0, 1)
        self._word = ControlWord()  # of the tick in progress, or of the last one
        self.control = ControlPanel(self._word, self._turn)
        self._starved = ""

    @property
    def astray(self) -> tuple[str, ...]:
        """Joints and poses that do not follow their commands."""
        with self._turn:
            return self._joints.astray

    @property
    def starved(self) -> str:
        """Why the last tick had no action to execute; empty when it had one, or a chunk was merged since."""
        with self._turn:
            return self._starved

    def command_in_force(self, now_ns: int) -> Float64Array | None:
        """Return the last command `[action_dim]` while joints may be on their way to it."""
        with self._turn:
            return self._joints.command_in_force(now_ns)

    def take_merge(self) -> None:
        """Note that a chunk was merged."""
        with self._turn:
            self._starved = ""

    @property
    def finished(self) -> bool:
        """True when a halted robot has got its stop commands, or is home."""
        with self._turn:
            return self.control.word.halted and not self._stopping.left and not self._goes_home

    @property
    def _goes_home(self) -> bool:
        word = self.control.word
        return word.wants_home and not word.paused and not self._way_home.ended

    @property
    def stranded(self) -> str:
        """Why a robot that gave up did not get home, in words; empty when it did, or has no home."""
        with self._turn:
            if not self._way_home.exists or not self._goes_home:
                return self._way_home.stranded
            return f"it was on its way for {self.longest_end_s:.0f} s"

    def listen(self, unheard: Iterable[CommandSink]) -> None:
        """Take the commands that no controller hears. The control thread calls this before a tick.

        An arm without a controller is anywhere but at its last command. Its joints' steps begin where they
        are measured until a controller has heard one, so that a controller that starts late or comes back
        does not jump. Measured after the last command before: its controller may have heard that one.
        """
        self._joints.listen(_taken_by(self._contract, unheard))

    def tick(self, now_ns: int, heard_ns: int | None = None) -> Tick:
        """Return what one control period commands. heard_ns: until then all was heard; None: until now."""
        with self._turn:
            return self._tick(now_ns, now_ns if heard_ns is None else heard_ns)

    def is_outdated(self, tick: Tick, late_ns: int, *, is_last_try: bool = False) -> bool:
        """Return whether a tick must not leave any more so long [ns] after it was decided.

        By then the robot may be stopped, or have gone on along its rows. Zeros are a stop at any time, and a
        hold is decided anew: is_last_try: it leaves late rather than not at all.
        """
        leads = tick.command is not None and tick.source is not CommandSource.ZERO and not tick.shadow
        ends = tick.source is CommandSource.HOLD and is_last_try
        return leads and late_ns > (self._given_up_after_ns if ends else self._outdated_after_ns)

    def _tick(self, now_ns: int, heard_ns: int) -> Tick:
        before, self._word = self._word, self.control.word
        is_lost = self._word.losses != before.losses  # where the joints are
        if self._word.withheld != before.withheld:
            for keeper in self._keepers:
                keeper.take_back()
        may_be_stopped = self._horizon.is_used or self._stopping.has_others
        self._lateness.look(now_ns, heard_ns, may_wait=may_be_stopped and not is_lost)
        was_stuck = self._lateness.stuck_ns > 0
        self._horizon.catch_up(self._reference, now_ns, is_known=not was_stuck)
        if self._word.forgets != before.forgets:
            self._joints.forget(now_ns)
            self._latch.forget()
            self._interpolation.end_row()
        if self._word.blend_ins != before.blend_ins:
            self._blend_in.begin()
        led_on = self._joints.look(
            now_ns,
            self._word,
            is_lost=was_stuck or is_lost,  # the watchdog may have stopped the controllers
            is_led=not self._word.paused and self._shadow is None,  # in shadow mode the arm follows another
        )
        unheard = bool(self._joints.unheard.any())
        self._blend_in.look(is_astray=bool(self._joints.astray), is_unheard=unheard)
        for keeper in self._keepers:
            keeper.keep()
        tick = self._decide(now_ns, led_on)
        self._lateness.take(tick)
        if tick.command is not None:
            self._follows_person = tick.source is CommandSource.HUMAN
        tick = self._joints.take(tick, now_ns)
        return tick if self._shadow is None else self._compare(tick, self._shadow)

    def _decide(self, now_ns: int, led_on: bool) -> Tick:
        word = self._word
        stopped = self._stops.look(now_ns)  # not by the word: a stop waits for nobody who swaps it
        if word.halted or word.paused or stopped:
            self._starved = ""
            if stopped or not self._goes_home:
                return self._stopping.stop(self._moment(now_ns))
            if self._lateness.waits:
                return self._stopping.stop_others((), in_force=True)
            return self._way_home.go(
                self._moment(now_ns),
                astray=self._joints.astray,
                stuck_ns=self._lateness.stuck_ns,
                velocity_scale=self._joints.velocity_scale,
            )
        if word.taken_over:
            return self._follow_person(now_ns, led_on)
        expired = self._interpolation.drop_captured_before(now_ns - self._max_action_age_ns)
        self._guard.refuse(AGE, expired)
        if self._lateness.waits:
            if self._interpolation.can_step and not self._follows_person:
                if not self._horizon.is_used:  # what was commanded before goes on in this row's time
                    self._interpolation.step(now_ns)
                return _WAIT
            self._starved = AGED_OUT if expired else self._starved or "queue empty"
            return self._stopping.stop_others((), in_force=True)
        if (tick := self._lead_back()) is not None:
            return tick
        if not led_on:
            return self._refuse_astray(now_ns)
        start = self._reference.start(self._joints.measured)
        if start is None and self._guard.needs_position and self._interpolation.can_step:
            return self._refuse_unmeasured(now_ns)
        step = self._interpolation.step(now_ns)
        # The last look at the age: it holds whatever the queue returned.
        if step is not None and now_ns - step.row.source.capture_ns > self._max_action_age_ns:
            self._guard.refuse(AGE)
            expired, step = expired + 1, None
        if step is None:
            self._starved = AGED_OUT if expired else self._starved or "queue empty"
            return self._fall_back(now_ns, (AGE,) if expired else ())
        self._starved = ""
        blend_in = self._blend_in.scale(now_ns)
        scale = min(blend_in, self._joints.velocity_scale)
        settling = self._switch_clock.settling(now_ns)
        guarded = self._guard.check(step.point, start, velocity_scale=scale, settling=settling)
        if blend_in == 1.0 and (reason := self._latch.take(guarded.interventions)):
            self._stops.latch(reason)  # from the next tick on
        if guarded.action is None:
            return self._fall_back(now_ns, guarded.interventions)
        self._stopping.owe()
        self._blend_in.take(now_ns)
        source = step.row.source
        command = self._way_back.limit(self._without_others(guarded.action), scale)
        horizon = self._horizon.hand_over(
            command,
            now_ns,
            scale,
            source.episode_id,
            unheard=self._joints.unheard,
            # What does not follow is tried by single steps: its drives may come back at any moment.
            alone=bool(self._joints.astray),
            lag_ns=self._joints.lag_ns,
        )
        self._take(command, now_ns)
        return Tick(
            command,
            CommandSource.CHUNK,
            step.row,
            age_s=(now_ns - source.capture_ns) / 1e9,
            interventions=guarded.interventions,
            horizon=horizon,
            row_fraction=step.fraction,
        )

    def _follow_person(self, now_ns: int, led_on: bool) -> Tick:
        """Command what a person says, within the guard's limits; a silent person means the fallback."""
        since_ns = self._word.person_since_ns
        action = self._human.newest(now_ns, since_ns) if self._human is not None else None
        if self._lateness.waits:  # neither the policy goes on, nor a person who is silent
            goes_on = action is not None and self._follows_person
            return _WAIT if goes_on else self._stopping.stop_others((), in_force=True)
        if (tick := self._lead_back()) is not None:
            return tick
        if action is None:
            self._starved = "takeover topic silent"
            return self._fall_back(now_ns, ())
        if not led_on:
            return self._refuse_astray(now_ns)
        measured = self._joints.measured
        if self._guard.needs_position and measured is None:  # no age bound ends a person's commands
            return self._refuse_unmeasured(now_ns)
        self._starved = ""
        start, settling = self._reference.start(measured), self._switch_clock.settling(now_ns)
        scale = self._joints.velocity_scale
        guarded = self._guard.check(action, start, velocity_scale=scale, settling=settling)
        if guarded.action is None:
            return self._fall_back(now_ns, guarded.interventions)
        self._stopping.owe()
        command = self._way_back.limit(self._without_others(guarded.action), scale)
        self._take(command, now_ns)
        return Tick.alone(command, CommandSource.HUMAN, guarded.interventions)

    def _without_others(self, action: Float64Array) -> Float64Array:
        """Return an action; while a joint does not follow its commands, one that leads the others nowhere.

        Velocities and efforts get zero, and switches stay.
        """
        if not self._joints.astray and not (self._joints.unheard & self._masks.holds).any():
            return action
        last = self._reference.last
        action = action if last is None else np.where(self._masks.is_switch, last, action)
        return np.where(self._masks.goes_on, 0.0, action)

    def _take(self, command: Float64Array, now_ns: int) -> None:
        """Take a command of the policy or of a person; nothing else changes a switch."""
        self._switch_clock.take(self._reference.last, command, now_ns)
        self._reference.take(command, self._joints.unheard)

    def _moment(self, now_ns: int) -> Moment:
        return self._joints.moment(now_ns, halted=self._word.halted, is_late=self._lateness.waits)

    def _fall_back(self, now_ns: int, interventions: tuple[str, ...]) -> Tick:
        return self._stopping.fall_back(self._moment(now_ns), interventions)

    def _lead_back(self) -> Tick | None:
        """Lead what does not follow to where it is measured; None when nothing is to be led back."""
        tick = self._way_back.go(self._joints.measured, self._joints.velocity_scale)
        if tick is not None:
            self._starved = NOT_FOLLOWED.format(", ".join(self._joints.astray))
            if problem := self._way_back.find_problem():
                self._stops.latch(problem)  # from the next tick on
        return tick

    def _refuse_astray(self, now_ns: int) -> Tick:
        """Lead no arm on that does not follow."""
        self._guard.refuse(FOLLOWING_ERROR)
        self._starved = NOT_FOLLOWED.format(", ".join(self._joints.astray))
        return self._fall_back(now_ns, (FOLLOWING_ERROR,))

    def _refuse_unmeasured(self, now_ns: int) -> Tick:
        """Lead no arm on that may be anywhere."""
        self._guard.refuse(SENSOR_AGE)
        self._starved = "no fresh joint positions to step from"
        return self._fall_back(now_ns, (SENSOR_AGE,))

    def _compare(self, tick: Tick, shadow: ShadowComparison) -> Tick:
        """Mark a tick as one of shadow mode, and compare its position with the arm's."""
        measured = self._joints.measured if self._guard.needs_position else None
        if tick.command is not None and tick.queued is not None and measured is not None:
            arm = np.where(self._masks.holds, measured, tick.command)
            of_one_sign = self._masks.poses.unify(arm, tick.command)
            assert of_one_sign is not None, "a measured pose has an orientation"
            shadow.add(tick.command, of_one_sign, tick.queued.source.episode_id)
        return replace(tick, shadow=True)


def _taken_by(contract: Contract, sinks: Iterable[CommandSink]) -> np.ndarray:
    """Return a mask `[action_dim]` of the actions that go to these controllers of the contract."""
    names = {name for sink in sinks for name in sink.names}
    return np.array([name in names for name in contract.actions.names])
