# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot with controllers of every kind, the command watchdog and a person; its threads may stand still.

The arm moves as its controllers lead it, also while nobody commands. `command_judge` looks at each command.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from remote_inference.base.contract.controller_stop import ControllerStop, Measured, stop_controller
from remote_inference.base.exchange import Chunk
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.pose_geometry import ActionMasks
from remote_inference.robot.safety.fault_injection import FaultInjection, Target
from remote_inference.robot.safety.measurement_gate import Belief, MeasurementGate
from remote_inference.robot.watchdog import Heartbeat, Watchdog
from support.builders import ns
from support.robot.acceleration_judge import AccelerationJudge
from support.robot.command_judge import (
    find_jumps,
    is_exempt,
    judge_command,
    judge_holds,
    judge_silence,
    judge_source,
    judge_what_stays,
    lag_bound,
    stall_bound,
)
from support.robot.controllers import Controlled
from support.robot.simulation import LED_NS, World

LOOK_NS = ns(0.01)  # between two looks of the watchdog
PERSON_NS = ns(0.02)
HAND_PERIOD_S = 0.01
HAND_SPEED, HAND_SPEED_M = 2.4, 0.8  # [rad/s], [m/s]
INSTANCE = 7  # of the robot's node
WATCHDOG = 8  # its instance


class WatchedWorld(World):
    """Adds the robot's own threads, controllers and watchdog to the servers and the network."""

    measurements_are_judged = True

    def __init__(self, *arguments: Any, watched: bool = True, **named: Any) -> None:
        self._ready = False
        self._signs = random.Random("signs")  # of the quaternions that are measured
        super().__init__(*arguments, **named)
        actions = self.contract.actions
        kind_of = self.contract.kind_of
        self.arms = [Controlled(sink, kind_of(sink), actions.names) for sink in self.contract.commands]
        self.is_position = np.array([kind == "position" for kind in actions.kinds])
        self.max_velocity = np.array([actions.limit_of(name).max_velocity or 0.0 for name in actions.names])
        self.watchdog = Watchdog() if watched else None
        self.beats = Heartbeat(self.contract.period_s, self.config.watchdog_timeout_s)
        self.beats_are_lost = False
        self.deaf = False  # true: the executor's thread stands still ...
        self._deaf_ns: int | None = None  # ... since then; until it has taken all that waits
        self.target: np.ndarray | None = None  # of the person
        self.injection = FaultInjection()
        self.pressed = False  # a stop that the node has heard, and nobody has cleared
        self._waiting: deque[Callable[[], None]] = deque()  # for the executor
        self._owes_tick = False
        self.freezes_in_tick_s = 0.0  # the next control tick, between what it decides and what it publishes
        self._moved_ns = self.now_ns
        self.resumed = False  # since the watchdog tripped
        self.waits_since_ns: int | None = None  # late ticks, for what is to be heard
        self.has_withheld = False  # the last tick's command, which was to end the wait
        self.driven_ns = 0  # when the drives came back
        self.ticked = deque(3 * [-ns(10)], maxlen=5)  # times of the last control ticks
        self.decided_ns = -ns(10)
        self.sent_ns = -ns(10)  # when a tick's command left last
        self.left_late_ns = 0  # after it was decided: its controllers are behind by so much
        self.due_late_ns = 0  # the time beyond a period that the last command was given
        self.handed_off_ns = -ns(10)
        self.beaten_ns = -ns(10)  # when the watchdog heard the robot's node last
        self.measured = (self.position, -ns(10))  # what the engine knows of the joints
        self.commanded = np.full(len(actions.names), np.nan)  # what each joint was commanded last
        self.commanded_ns = np.zeros(len(actions.names), np.int64)  # when
        self.blind_ns = self.commanded_ns.copy()  # how old what was measured was then
        self.switched_ns = -ns(10)  # when the switch changed last
        self.lags = np.zeros(len(actions.names), bool)  # joints that could not follow their last command
        self.astray = np.zeros(len(actions.names), bool)  # did not follow since their last command
        # Joints whose last command came when nobody could bound how far they lag behind.
        self.led_blind = np.zeros(len(actions.names), bool)
        self.stops: dict[str, ControllerStop] = {}
        self.gate = MeasurementGate(actions, ActionMasks.of(actions), self.contract.period_s)
        self.belief = Belief.none(len(actions.names))  # of the watchdog
        self.accelerations = AccelerationJudge(self)
        self._until = dict.fromkeys(("stuck", "hung", "deaf"), 0)
        self._ready = True
        self._every(LOOK_NS, self._watch)
        self._every(PERSON_NS, self._wave)

    # -- threads -------------------------------------------------------------------------------------------

    def stand_still(self, duration_s: float, *threads: str) -> None:
        """Let threads ("stuck", "hung", "deaf") stand still for a time."""
        if "deaf" in threads and self._deaf_ns is None:
            self._deaf_ns = self.now_ns
        for thread in threads:
            setattr(self, thread, True)
            self._until[thread] = max(self._until[thread], self.now_ns + ns(duration_s))
        self.after(ns(duration_s), lambda: self._go_on(threads))

    def overload(self, duration_s: float) -> None:
        """Let each control tick of a time come late."""
        until_ns = self.now_ns + ns(duration_s)
        gap_s = 1.6 * self.period_ns / 1e9

        def again() -> None:
            if self.now_ns < until_ns:
                self.stand_still(gap_s, "stuck")
                self.after(ns(gap_s), again)

        again()

    def _go_on(self, threads: tuple[str, ...]) -> None:
        for thread in threads:
            if self.now_ns >= self._until[thread]:
                setattr(self, thread, False)
        if not self.stuck and self._owes_tick:  # a control thread that is late ticks at once
            self._tick()
        if not self.deaf:
            while self._waiting:
                self._waiting.popleft()()
            self._deaf_ns = None

    @property
    def heard_ns(self) -> int:
        """The time until which the executor has taken all that came."""
        return self.now_ns if self._deaf_ns is None else self._deaf_ns

    def by_executor(self, action: Callable[[], None]) -> None:
        """Let the executor's thread take something, once it lives."""
        if self.deaf:
            self._waiting.append(action)
        else:
            action()

    def _work(self) -> None:
        if self._ready and not self.hung:
            self.injection.end_if_over(self.now_ns)
            for chunk in self.injection.take_due(Target.CHUNKS, self.now_ns):
                super().deliver(chunk)
        super()._work()

    def deliver(self, chunk: Chunk, arrival_ns: int | None = None) -> None:
        came_ns = self.now_ns if arrival_ns is None else arrival_ns
        for passed in self.injection.pass_on(Target.CHUNKS, chunk, came_ns):
            super().deliver(passed, came_ns)

    def _sense(self) -> None:
        if not self._ready or not self.deaf:
            super()._sense()

    def _receive_sensors(self) -> None:
        if self._ready:
            self.move()
        super()._receive_sensors()
        if self.poses.exist and self._signs.random() < 0.5:
            self.seen = self.seen.copy()
            self.seen[self.poses.turns] *= -1.0
        if self._ready and self.watchdog is not None:
            time_ns = self.arrivals.get("joint_states", 0)
            times_ns = np.full(self.contract.action_dim, time_ns)
            none = np.zeros_like(times_ns)
            self.belief = self.gate.judge(self.belief, self.seen, times_ns, none, None, by_hand=True)

    def _look_at_sensors(self) -> None:
        if not self._ready:
            return
        samples, self._samples = self._samples, []
        seen = dict(self.arrivals), self.seen.copy(), samples
        for arrivals, position, taken in self.injection.pass_on(Target.SENSORS, seen, self.now_ns):
            self.told = arrivals
            times_ns = (arrivals.get(topic, 0) for topic in self.measured_topics)
            self.measured = (position, min(times_ns, default=0))
            self._tell_sensors(arrivals, position, taken)

    def _wave(self) -> None:
        if self.target is not None:
            target = self.target.copy()
            self.by_executor(lambda: self.engine.hear_person(target, self.heard_ns))

    # -- arm and controllers -------------------------------------------------------------------------------

    def move(self) -> None:
        """Let the controllers lead the arm until now."""
        before_ns, self._moved_ns = self._moved_ns, self.now_ns
        if not self.driven:
            return
        position = self.position.copy()
        for arm in self.arms:
            position[arm.joints] = arm.controller.lead(position[arm.joints], before_ns, self.now_ns)
        self.position = position

    def drive_off(self) -> None:
        self.move()
        self.driven = False
        self.lags[:] = True

    def drive_on(self, *, held: bool) -> None:
        """Switch the drives on. held: the controllers begin where the arm is, not at their targets."""
        self.move()
        for arm in self.arms:
            if held and arm.kind in ("position", "pose"):
                arm.controller.forget()
        before, self.driven, self.driven_ns = self.position, True, self.now_ns
        self.move()
        if not is_exempt(self):
            before = np.where(self.led_blind, self.position, before)
            bound = lag_bound(self) + stall_bound(self)
            jumps = (np.abs(self.position - before) > bound) & self.is_position
            assert not jumps.any(), "the arm jumps to its targets"
            assert not find_jumps(self, before), "a pose jumps to its target"

    def take_away(self, arm: Controlled) -> None:
        """Take a controller away; its joints stay where they are."""
        self.move()
        arm.is_heard = False
        arm.controller.forget()
        self.lags[arm.joints] = True

    def deactivate(self, arm: Controlled) -> None:
        """Let its manager deactivate a controller: it is matched, and takes nothing."""
        self.move()
        arm.controller.deactivate(self.now_ns)
        self.lags[arm.joints] = True

    def unlink(self, arm: Controlled) -> None:
        """Cut the way to a controller, which lives: it goes on as it was told."""
        self.move()
        arm.is_heard = False
        self.lags[arm.joints] = True

    def shove(self, goal: np.ndarray) -> None:
        """Let a hand move the paused arm to a goal, in the time that it needs; its controllers give way."""
        begin, way = self.position.copy(), np.abs(goal - self.position).max() / HAND_SPEED
        if self.poses.exist:
            angles = self.poses.angles(begin, goal).max() / HAND_SPEED
            way = max(way, self.poses.distances(begin, goal).max() / HAND_SPEED_M, angles)
        steps = 1 + int(way / HAND_PERIOD_S)

        def push(step: int) -> None:
            if not self.engine.paused:
                return
            self.move()
            for arm in self.arms:
                arm.controller.forget()
            self.lags[:] = True
            self.position = begin + step / steps * (goal - begin)
            if self.poses.exist:
                self.position = self.poses.turn(self.position, begin, goal, step / steps)
            if step < steps:
                self.after(ns(HAND_PERIOD_S), partial(push, step + 1))

        push(1)

    def _is_led(self) -> bool:
        """Return whether commands alone move the arm: drives that come back bring it there at once."""
        return super()._is_led() and self.now_ns - self.driven_ns > LED_NS

    # -- watchdog ------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        self.move()
        if self.watchdog is None:
            return
        trips = self.watchdog.trips
        must_stop = self.watchdog.check(self.now_ns)
        if self.watchdog.trips != trips:
            self.stops.clear()
            self.resumed = False
            self.handed_off_ns = self.now_ns
        if must_stop:
            self._stop_controllers()
        state, trips = int(self.watchdog.state), self.watchdog.trips
        self.by_executor(
            lambda: self.beats.hear_watchdog(WATCHDOG, state, trips) and self._pause_after_a_stop()
        )
        judge_silence(self, self.watchdog)

    def _stop_controllers(self) -> None:
        ages_ns = self.now_ns - self.belief.at_ns
        measured = {
            name: Measured(position, age_ns)
            for name, position, age_ns in zip(
                self.contract.actions.names, self.belief.position, ages_ns.tolist(), strict=True
            )
            if np.isfinite(position) and age_ns <= ns(0.5)
        }
        for arm in self.arms:
            stop = self.stops.get(arm.sink.topic)
            if stop is None or stop.failed:
                stop = self.stops[arm.sink.topic] = stop_controller(self.contract, arm.sink, measured)
            arm.has_missed_a_stop |= not (arm.is_heard and arm.controller.is_active)
            if stop.action is not None and arm.is_heard:
                rows = stop.action[np.newaxis, arm.joints]
                at = self.position[arm.joints]
                arm.controller.command(rows, self.period_ns, self.now_ns, at, stop.late_ns)
                self.lags[arm.joints] |= self.resumed  # two command now: following error bounds it

    def _pause_after_a_stop(self) -> None:
        self.handed_off_ns = self.now_ns
        self.engine.take_outside_stop()
        self._by_worker(self.pause)

    # -- the control thread --------------------------------------------------------------------------------

    def _tick(self) -> None:
        if not self._ready:
            return
        if self.stuck:
            self._owes_tick = True
            return
        self._owes_tick = False
        if self.now_ns == self.ticked[-1]:
            return
        self.move()
        if self.beats.was_given_up(self.now_ns):
            self._pause_after_a_stop()
        if self.now_ns - self.ticked[-1] > ns(self.config.watchdog_timeout_s) + self.period_ns:
            self.handed_off_ns = self.now_ns
        tick = self._decide()
        if not self.freezes_in_tick_s:
            self._end_tick(tick, self.now_ns)
            return
        self.after(ns(self.freezes_in_tick_s), partial(self._end_tick, tick, self.now_ns))
        self.stand_still(self.freezes_in_tick_s, "stuck", "hung", "deaf")
        self.freezes_in_tick_s = 0.0

    def _decide(self) -> Tick:
        paused, taken_over, dead = self.engine.paused, self.engine.taken_over, self.engine.dead
        self.astray |= np.isin(
            self.contract.actions.names, self._columns_of(self.engine.playback.not_following)
        )
        unheard = tuple(arm.sink.topic for arm in self.arms if arm.is_withdrawn or not arm.is_heard)
        tick = self.engine.play(self.now_ns, unheard, self.heard_ns)
        self.ticks.append((self.now_ns, tick))
        judge_source(self, tick, paused=paused or self.pressed, taken_over=taken_over, dead=dead)
        return tick

    def _end_tick(self, tick: Tick, began_ns: int) -> None:
        """Publish what a tick decided, as the node does."""
        self.decided_ns = began_ns
        self.move()
        if self.engine.playback.is_outdated(tick, self.now_ns - began_ns):
            if self.beats.was_given_up(self.now_ns):
                self._pause_after_a_stop()
            is_hold = tick.source is CommandSource.HOLD
            self.engine.take_back_command(not is_hold)
            self.has_withheld = True
            if is_hold:
                self.ticked.append(began_ns)
                self._end_tick(self._decide(), self.now_ns)
                return
            phase = self.beats.withhold(self.now_ns)
        else:
            commanding = self._publish(tick)
            self.sent_ns = self.now_ns
            if tick.command is not None:
                self.left_late_ns, self.due_late_ns = self.now_ns - began_ns, tick.late_ns
            if began_ns == self.now_ns:  # else the next tick, which follows at once, is judged
                judge_what_stays(self, tick)
            else:
                self.waits_since_ns, self.has_withheld = None, False
            if self.beats.was_given_up(self.now_ns):
                self._pause_after_a_stop()
            phase = self.beats.beat(began_ns, commanding=commanding)
        self.ticked.append(began_ns)
        if phase is not None and self.watchdog is not None and not self.beats_are_lost:
            self.beaten_ns = self.now_ns
            self.watchdog.receive(INSTANCE, int(phase), self.beats.deadline_s, self.now_ns)

    def _columns_of(self, astray: tuple[str, ...]) -> list[str]:
        """Return the actions of joints and poses that do not follow."""
        poses = self.contract.actions.poses
        return [name for one in astray for name in (poses[one].names if one in poses else (one,))]

    def _publish(self, tick: Tick) -> bool:
        if tick.horizon is None:
            return tick.in_force
        commanding = False
        for arm in self.arms:
            if not tick.reaches(arm.kind, arm.sink.destination):
                continue
            commanding = True
            judge_holds(self, tick, arm)
            goes_ahead = arm.is_trajectory and arm.is_heard and not arm.is_withdrawn
            rows = tick.horizon[:, arm.joints] if goes_ahead else tick.horizon[:1, arm.joints]
            if arm.controller.is_active:  # else it takes nothing
                self._judge(tick, arm, rows)
                self.accelerations.judge(tick, arm, rows)
            self.astray[arm.joints] = False
            if arm.is_heard and arm.controller.is_active:
                at = self.position[arm.joints]
                arm.controller.command(rows, self.period_ns, self.now_ns, at, tick.late_ns)
                arm.has_missed_a_stop = False
                self.move()
                # A position from before the drives came back may still lead a command astray, and the next
                # ones until the controller has caught up.
                is_back = self.driven and self.measured[1] >= self.driven_ns and not tick.late_ns
                self.lags[arm.joints] &= not is_back
            elif self.engine.dead:  # a robot that has given up waits for nobody who is out of reach
                arm.has_missed_a_stop = True
            if arm.kind == "switch" and (self.commanded[arm.joints] != rows[0]).any():
                self.switched_ns = self.decided_ns
            self.commanded[arm.joints], self.commanded_ns[arm.joints] = rows[0], self.now_ns
            self.led_blind[arm.joints] = is_exempt(self)
            age_ns = self.now_ns - self.measured[1]
            self.blind_ns[arm.joints] = min(age_ns, ns(self.config.max_sensor_age_s))
        return commanding

    def _judge(self, tick: Tick, arm: Controlled, rows: np.ndarray) -> None:
        judge_command(self, tick, arm, rows, self.astray)

    # -- the operator, who lets the next step begin where the arm is measured -----------------------------

    def resume(self) -> str:
        self.handed_off_ns = self.now_ns
        self.resumed = True
        return super().resume()

    def take_over(self) -> str:
        self.handed_off_ns = self.now_ns
        return super().take_over()

    def release(self) -> str:
        self.handed_off_ns = self.now_ns
        return super().release()

    def reset(self, task: str = "") -> None:
        self.handed_off_ns = self.now_ns
        super().reset(task)
