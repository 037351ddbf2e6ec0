# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the robot is commanded in each control tick: the next queued action, guarded, or the fallback."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from remote_inference.core.contract import CommandSink, Contract
from remote_inference.core.robot.action_queue import ActionQueue
from remote_inference.core.robot.control_word import ControlPanel, ControlWord
from remote_inference.core.robot.fallbacks import FALLBACKS
from remote_inference.core.robot.guard import AGE, SENSOR_AGE, Float64Array, Guard
from remote_inference.core.robot.homing import Homing
from remote_inference.core.robot.tick import CommandSource, Tick

EARLY_TICK = 0.1  # fraction of a period by which a tick may come too early
STOP_TICKS = 10  # a single stop, or the last step of the way home, may be lost on its way to the controller


class Playback:
    """Pops, guards and falls back. The control thread calls `tick` and `listen`; others change `control`."""

    def __init__(
        self, queue: ActionQueue, guard: Guard, contract: Contract, *, fallback: str, max_action_age_ns: int
    ) -> None:
        self._queue = queue
        self._guard = guard
        self._action_dim = contract.action_dim
        self._period_ns = round(contract.period_s * 1e9)
        self._home = contract.home
        self._contract = contract
        self._handed_over = _taken_by(
            contract, (sink for sink in contract.commands if sink.interface.takes_horizon)
        )
        self._unheard = _taken_by(contract, ())  # actions that no controller listens to
        self._fallback = FALLBACKS.get(fallback)()
        self._max_action_age_ns = max_action_age_ns
        self._last_command: Float64Array | None = None
        self._reference: Float64Array | None = None  # the last command, None when the robot may be elsewhere
        self._horizon: Float64Array | None = None  # of the last tick, for trajectory controllers ...
        self._horizon_ns = 0  # ... when ...
        self._horizon_episode = 0  # ... and of which episode
        self._commanded_ns = 0  # time of the last command
        self._homing: Homing | None = None
        self._home_ticks = 0  # ticks that commanded home
        self._homing_ended = False  # home is reached, or the robot must not be moved there
        self._stop_ticks = 0  # stops still to command once there is nothing to execute
        self._word = ControlWord()  # of the tick in progress, or of the last one
        self.control = ControlPanel(self._word)
        self.starved = ""  # why the last tick had no action to execute; empty when it had one

    @property
    def finished(self) -> bool:
        """True when a halted robot has got its stop commands, or is home."""
        word = self.control.word
        goes_home = word.wants_home and not word.paused and not self._homing_ended
        return word.halted and not self._stop_ticks and not goes_home

    def listen(self, unheard: Iterable[CommandSink]) -> None:
        """Take the commands that no controller subscribes to. The control thread calls this before a tick.

        An arm without a controller stays where it is. Each step of its joints begins there, so that a
        controller that starts late or comes back does not jump to the newest command.
        """
        self._unheard = _taken_by(self._contract, unheard)

    def tick(self, now_ns: int) -> Tick:
        """Return what one control period commands."""
        before, self._word = self._word, self.control.word
        self._catch_up(now_ns)
        if self._word.forgets != before.forgets:
            self._reference = None
        if now_ns - self._commanded_ns > self._max_action_age_ns:
            self._reference = None  # another node may have moved the robot meanwhile
        tick = self._decide(now_ns)
        if tick.command is not None:
            self._commanded_ns = now_ns
        return tick

    def _decide(self, now_ns: int) -> Tick:
        word = self._word
        if word.halted or word.paused:
            self.starved = ""
            goes_home = word.wants_home and not word.paused and not self._homing_ended
            return self._go_home(now_ns) if goes_home else self._stop()
        expired = self._queue.drop_captured_before(now_ns - self._max_action_age_ns)
        self._guard.refuse(AGE, expired)
        reference = self._step_from()
        if reference is None and self._guard.needs_position and len(self._queue):
            self._guard.refuse(SENSOR_AGE)
            self.starved = "no fresh joint positions to step from"
            return self._fall_back((SENSOR_AGE,))
        queued = self._queue.get()
        # A chunk may be merged between the two calls, hence the second look at the age.
        if queued is not None and now_ns - queued.source.capture_ns > self._max_action_age_ns:
            self._guard.refuse(AGE)
            expired, queued = expired + 1, None
        if queued is None:
            self.starved = "actions older than max_action_age_s" if expired else self.starved or "queue empty"
            return self._fall_back((AGE,) if expired else ())
        self.starved = ""
        guarded = self._guard.check(queued.robot.astype(np.float64), reference)
        if guarded.action is None:
            return self._fall_back(guarded.interventions)
        self._stop_ticks = STOP_TICKS
        horizon = self._hand_over(guarded.action, now_ns)
        self._horizon_episode = queued.source.episode_id
        self._last_command = self._reference = guarded.action
        age_s = (now_ns - queued.source.capture_ns) / 1e9
        return Tick(guarded.action, CommandSource.CHUNK, queued, age_s, guarded.interventions, horizon)

    def _step_from(self) -> Float64Array | None:
        """Return where the next step begins `[action_dim]`, None when the robot's position is unknown."""
        if self._reference is not None and not self._unheard.any():
            return self._reference
        start = self._word.measured if self._guard.needs_position else np.zeros(self._action_dim)
        if self._reference is None or start is None:
            return start
        return np.where(self._unheard, start, self._reference)

    # -- trajectory controllers ----------------------------------------------------------------------------

    def _hand_over(self, command: Float64Array, now_ns: int) -> Float64Array:
        """Return the rows that a trajectory controller may execute by itself if ticks fail to come."""
        rows = [command]
        if self._handed_over.any():
            for ahead, queued in enumerate(self._queue.upcoming(), start=1):
                at_ns = now_ns + ahead * self._period_ns
                if at_ns - queued.source.capture_ns > self._max_action_age_ns:
                    break
                rows.append(queued.robot.astype(np.float64))
        horizon = command[np.newaxis]
        if len(rows) > 1:
            horizon = np.concatenate([horizon, self._guard.foresee(np.stack(rows[1:]), command)])
        if self._handed_over.any():
            self._horizon, self._horizon_ns = horizon, now_ns
        return horizon

    def _catch_up(self, now_ns: int) -> None:
        """Skip the rows that trajectory controllers executed in periods without a tick."""
        horizon, self._horizon = self._horizon, None
        if horizon is not None and self._last_command is not None:
            # Rounded down: no row counts before the controller has reached it.
            periods = int((now_ns - self._horizon_ns) / self._period_ns + EARLY_TICK)
            missed = min(periods, len(horizon)) - 1
            if missed > 0:
                reached = self._last_command.copy()
                reached[self._handed_over] = horizon[missed, self._handed_over]
                self._last_command = self._reference = reached
            self._queue.skip(missed, self._horizon_episode)

    # -- nothing to execute --------------------------------------------------------------------------------

    def _fall_back(self, interventions: tuple[str, ...]) -> Tick:
        if self._last_command is None:  # before the first action another node may drive the robot
            return self._stop(interventions)
        command = self._fallback.command(self._last_command, self._reference)
        if command is None:
            return self._stop(interventions)
        return self._stand_in(command, interventions)

    def _stop(self, interventions: tuple[str, ...] = ()) -> Tick:
        """Command nothing; a robot that goes on without commands first gets stop commands for a while."""
        if self._stop_ticks:
            self._stop_ticks -= 1
            assert self._last_command is not None, "stops follow a command"
            stop = self._fallback.stop(self._last_command)
            if stop is not None:
                return self._stand_in(stop, interventions)
            if self._handed_over.any():
                horizon = self._last_command[np.newaxis]
                return Tick(
                    self._last_command, CommandSource.HOLD, interventions=interventions, horizon=horizon
                )
            self._stop_ticks = 0  # a forward position controller keeps its last target
        return Tick(None, CommandSource.NONE, interventions=interventions)

    def _stand_in(self, command: Float64Array, interventions: tuple[str, ...]) -> Tick:
        """Command what the fallback returned."""
        self._last_command = self._reference = command
        horizon = command[np.newaxis]
        return Tick(command, self._fallback.source, interventions=interventions, horizon=horizon)

    def _go_home(self, now_ns: int) -> Tick:
        """Command the next point of the way home, or stop when there is no home or no controller listens."""
        if self._home is None or self._last_command is None or self._unheard.any():
            self._homing_ended = True
            return self._stop()
        if self._homing is None:
            start = self._step_from()
            if start is None:  # another node moved the robot, and its position is unknown
                self._guard.refuse(SENSOR_AGE)
                self._homing_ended = True
                return self._stop((SENSOR_AGE,))
            self._homing = Homing(start, self._home, now_ns)
            self._reference = start
        guarded = self._guard.check(self._homing.target(now_ns), self._reference)
        if guarded.action is None:  # only when the reference is not finite
            self._homing_ended = True
            return self._stop(guarded.interventions)
        self._last_command = self._reference = guarded.action
        self._home_ticks += self._homing.reached(guarded.action)
        self._homing_ended = self._home_ticks >= STOP_TICKS
        horizon = guarded.action[np.newaxis]
        return Tick(
            guarded.action, CommandSource.HOMING, interventions=guarded.interventions, horizon=horizon
        )


def _taken_by(contract: Contract, sinks: Iterable[CommandSink]) -> np.ndarray:
    """Return a mask `[action_dim]` of the actions that go to these controllers of the contract."""
    names = {name for sink in sinks for name in sink.names}
    return np.array([name in names for name in contract.actions.names])
