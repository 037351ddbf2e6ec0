# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The stages of a control tick one by one: a test changes the state between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from remote_inference.base.contract.contract import Contract
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.command_mode import OperatorCommand
from remote_inference.robot.motion.emit import send_ahead, time_command
from remote_inference.robot.motion.estimate import (
    Estimate,
    estimate,
    follow,
    forget,
    judge_following,
)
from remote_inference.robot.motion.limit import Limited
from remote_inference.robot.motion.rules import MotionRules
from remote_inference.robot.motion.select import Choice, Order, names_not_following
from remote_inference.robot.motion.state import MotionState, Tick, TickInputs
from remote_inference.robot.queue.plan import Plan, QueuedAction, Step
from support.builders import make_contract, make_rows, make_source
from support.robot.playbacks import make_queue, make_rules
from support.robot.played_trajectory import feed

FIRST, SECOND, NOBODY = np.array([True, False]), np.array([False, True]), np.zeros(2, bool)
ROWS = 4


class Motion:
    """A state, and what the next tick finds. Its robot is not paused."""

    def __init__(self, rules: MotionRules, now_ns: int = 0) -> None:
        self.rules = rules
        self.state = MotionState.first(len(rules.names), rules.trajectories)
        self.operator = OperatorCommand(paused=False)
        self.unsubscribed = np.zeros(len(rules.names), bool)
        self.plan = Plan()
        self.now_ns = now_ns
        self.found: Estimate | None = None

    def estimate(self, *, heard_ns: int | None = None, **operator: Any) -> Estimate:
        """Let the first stage look. operator: what has changed of the operator's command."""
        self.operator = replace(self.operator, **operator)
        heard_ns = self.now_ns if heard_ns is None else heard_ns
        inputs = TickInputs(self.now_ns, heard_ns, self.operator, "", self.unsubscribed, None, self.plan)
        self.state, self.found, _ = estimate(self.state, inputs, self.rules)
        return self.found

    def follow(self, *command: float) -> None:
        """Let the joints follow a command."""
        self.state = follow(self.state, np.array(command), self.rules)

    def lose(self, joints: np.ndarray) -> None:
        """Let joints be anywhere but at their last command."""
        known = self.state.joints
        self.state = replace(self.state, joints=replace(known, unknown=known.unknown | joints))


class TwoArms(Motion):
    """Two joints, each with a trajectory controller of its own, and four actions ahead."""

    def __init__(
        self,
        controllers: Sequence[str] = ("first", "second"),
        *,
        contract: Contract | None = None,
        now_ns: int = 0,
        **changes: Any,
    ) -> None:
        """controllers: of trajectories; the first is that of the first joint. changes: of the rules."""
        contract = contract or make_contract()
        trajectories = dict(zip(controllers, (FIRST, SECOND), strict=False))
        super().__init__(make_rules(contract, trajectories=trajectories, **changes), now_ns)
        queue = make_queue(contract)
        feed(queue, make_rows(ROWS, first=0.01))
        self.plan = queue.plan
        self.follow(0.0, 0.0)

    def send_ahead(self, *command: float) -> np.ndarray:
        """Send a command, and the actions after it; return the points."""
        assert self.found is not None
        state = replace(self.state, progress=self.state.progress.go_on(self.plan))
        action = QueuedAction(make_source(), 0, np.empty(0), np.empty(0))
        choice = Choice(state, Order.LEAD, step=Step(action, 0.0, np.array(command)))
        self.state, points = send_ahead(state, Limited(choice), np.array(command), self.found, self.rules)
        return points

    def command(self, *position: float, source: CommandSource = CommandSource.CHUNK) -> Tick:
        """Command a position now, to all joints; return the tick."""
        assert self.found is not None
        if source is CommandSource.CHUNK:
            self.send_ahead(*position)
        self.follow(*position)
        return self.take(Tick.alone(np.array(position), source, ()))

    def take(self, tick: Tick) -> Tick:
        """Let a tick's command leave; return it with the time that it needs."""
        assert self.found is not None
        self.state, tick = time_command(self.state, tick, self.found, self.rules)
        return tick

    @property
    def ends_ns(self) -> tuple[int, int]:
        """Until when each joint's controller goes on."""
        ahead = self.state.sent.look_ahead
        return ahead.until_ns(FIRST), ahead.until_ns(SECOND)

    @property
    def skipped(self) -> int:
        """How many actions were skipped since the last look."""
        return len(self.plan) - len(self.state.progress.plan)


class FollowingWatch:
    """What a robot knows of its joints' following errors, look by look."""

    def __init__(self, contract: Contract) -> None:
        self._rules = make_rules(contract)
        self._joints = MotionState.first(contract.action_dim, {}).joints

    def look(
        self, command: np.ndarray, measured: np.ndarray, led: np.ndarray, *, ages_s: np.ndarray, now_ns: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the joints whose last command does not hold, and those that must not be led on now."""
        self._joints, lost = judge_following(
            self._joints, command, measured, self._rules, led=led, ages_s=ages_s, now_ns=now_ns
        )
        return lost, self._joints.stalled & (now_ns < self._joints.retry_ns)

    @property
    def not_following(self) -> tuple[str, ...]:
        return names_not_following(self._joints, self._rules)

    def forget(self) -> None:
        self._joints = forget(self._joints, 0, self._rules)
