# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One control tick, and the holder of what it leaves to the next. `motion/__init__.py` has the theory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.robot.command import CommandSource, Float64Array
from remote_inference.robot.motion.command_mode import CommandMode, HumanCommands, StopInputs
from remote_inference.robot.motion.emit import Outcome, emit
from remote_inference.robot.motion.estimate import estimate
from remote_inference.robot.motion.limit import limit
from remote_inference.robot.motion.rules import MotionRules, actions_of
from remote_inference.robot.motion.select import names_not_following, select
from remote_inference.robot.motion.state import MotionState, Tick, TickInputs
from remote_inference.robot.queue.action_queue import ActionQueue
from remote_inference.robot.step_lock import StepLock

IN_FORCE_NS = 500_000_000  # after a command, its joints may be on their way to it

# -- Shadow mode: how far the policy's commands are from what the arm really does ------------------------


@dataclass(frozen=True)
class ShadowError:
    """Differences between would-be commands and measured positions, by joint `[action_dim]`."""

    episode_id: int
    ticks: int
    mean: Float64Array  # of the absolute differences [unit of the action]
    largest: Float64Array


class ShadowComparison:
    """Sums the differences of an episode up. The control thread adds, others read."""

    def __init__(self, action_dim: int) -> None:
        self._nothing = np.zeros(action_dim)
        self.error = ShadowError(0, 0, self._nothing, self._nothing)  # swapped whole

    def add(self, command: Float64Array, measured: Float64Array, episode_id: int) -> None:
        """Compare one tick's would-be command `[action_dim]` with the arm `[action_dim]`."""
        before, difference = self.error, np.abs(command - measured)
        if episode_id != before.episode_id:
            before = ShadowError(episode_id, 0, self._nothing, self._nothing)
        ticks = before.ticks + 1
        self.error = ShadowError(
            episode_id,
            ticks,
            before.mean + (difference - before.mean) / ticks,
            np.maximum(before.largest, difference),
        )


def decide(state: MotionState, inputs: TickInputs, rules: MotionRules) -> Outcome:
    """Return what one control tick commands."""
    state, found, caught_up = estimate(state, inputs, rules)
    choice = select(state, found, inputs, rules)
    limited = limit(choice, found, inputs, rules)
    outcome = emit(limited, found, rules)
    counted = (*caught_up, *outcome.counted)
    return replace(outcome, counted=counted, latch=limited.choice.latch, measured=found.measured)


class Playback:
    """Holds the newest state. The control thread calls `tick` and `listen`; others change `control`."""

    def __init__(
        self,
        rules: MotionRules,
        queue: ActionQueue,
        *,
        stops: StopInputs | None = None,
        human: HumanCommands | None = None,
        lock: StepLock | None = None,
    ) -> None:
        """Build it, paused. stops: end the commands at once. human: for takeovers."""
        self.rules = rules
        self._lock = lock or StepLock()
        self._queue = queue
        self._stops = stops or StopInputs({}, self._lock)
        self._human = human
        self._state = MotionState.first(len(rules.names), rules.trajectories)
        self._unsubscribed = np.zeros(len(rules.names), bool)
        self.control = CommandMode(self._state.operator, self._lock)
        self.shadow = ShadowComparison(len(rules.names)) if rules.is_shadow else None

    @property
    def not_following(self) -> tuple[str, ...]:
        """Joints and poses that do not follow their commands."""
        with self._lock:
            return names_not_following(self._state.joints, self.rules)

    @property
    def starved(self) -> str:
        """Why the last tick had no action to execute; empty when it had one, or a chunk was merged since."""
        with self._lock:
            return self._state.starved

    def command_in_force(self, now_ns: int) -> Float64Array | None:
        """Return the last command `[action_dim]` while joints may be on their way to it."""
        with self._lock:
            is_recent = now_ns - self._state.joints.commanded_ns <= IN_FORCE_NS + self.rules.period_ns
            return self._state.sent.command if is_recent else None

    def note_merge(self) -> None:
        """Note that a chunk was merged."""
        with self._lock:
            self._state = replace(self._state, starved="")

    @property
    def finished(self) -> bool:
        """True when a halted robot has got its stop commands, or is home."""
        with self._lock:
            halted = self.control.operator.halted
            return halted and not self._state.sent.must_stop and not self._goes_home

    @property
    def _goes_home(self) -> bool:
        return self._state.home.goes_on(self.control.operator)

    @property
    def stranded(self) -> str:
        """Why a robot that gave up did not get home, in words; empty when it did, or has no home."""
        with self._lock:
            if self.rules.contract.home is None or not self._goes_home:
                return self._state.home.stranded
            return f"it was on its way for {self.rules.longest_end_s:.0f} s"

    def listen(self, absent: Iterable[CommandSink]) -> None:
        """Store which commands no active controller takes. The control thread calls it before a tick."""
        with self._lock:
            self._unsubscribed = actions_of(self.rules.contract, absent)

    def tick(self, now_ns: int, heard_ns: int | None = None) -> Tick:
        """Return what one control period commands. heard_ns: as of `Engine.play`."""
        with self._lock:
            operator = self.control.operator
            person = before = None
            if operator.taken_over and self._human is not None:
                person = self._human.newest(now_ns, operator.person_since_ns)
                before = self._human.before(now_ns, operator.person_since_ns)
            inputs = TickInputs(
                now_ns,
                now_ns if heard_ns is None else heard_ns,
                operator,
                self._stops.check(now_ns),
                self._unsubscribed,
                person,
                self._queue.plan,
                before,
            )
            outcome = decide(self._state, inputs, self.rules)
            self._state = outcome.state
            self._queue.go_on(outcome.state.progress)
            self.rules.guard.counts.update(outcome.counted)
            if outcome.latch:
                self._stops.latch(outcome.latch)  # from the next tick on
            return outcome.tick if self.shadow is None else self._compare(outcome, self.shadow)

    def is_outdated(self, tick: Tick, late_ns: int, *, is_last_try: bool = False) -> bool:
        """Return whether a tick must not leave any more so long [ns] after it was decided.

        By then the robot may be stopped, or have gone on along its actions. Zeros are a stop at any time, and
        a hold is decided anew: is_last_try: it leaves late rather than not at all.
        """
        leads = tick.command is not None and tick.source is not CommandSource.ZERO and not tick.shadow
        ends = tick.source is CommandSource.HOLD and is_last_try
        longest_ns = self.rules.given_up_after_ns if ends else self.rules.outdated_after_ns
        return leads and late_ns > longest_ns

    def _compare(self, outcome: Outcome, shadow: ShadowComparison) -> Tick:
        """Mark a tick as one of shadow mode, and compare its position with the arm's."""
        tick, measured, masks = outcome.tick, outcome.measured, self.rules.masks
        if not self.rules.guard.needs_position:
            measured = None
        if tick.command is not None and tick.queued is not None and measured is not None:
            arm = np.where(masks.holds, measured, tick.command)
            of_one_sign = masks.poses.unify(arm, tick.command)
            assert of_one_sign is not None, "a measured pose has an orientation"
            shadow.add(tick.command, of_one_sign, tick.queued.source.episode_id)
        return replace(tick, shadow=True)
