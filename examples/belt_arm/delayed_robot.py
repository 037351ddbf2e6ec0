# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's queue and its one request in flight, on a clock that counts control ticks.

The answer to an observation of tick k takes effect at tick k + its latency.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from remote_inference.base.policy import Float32Array
from remote_inference.learn.environments.belt_arm.scene import CONTROL_HZ
from remote_inference.learn.environments.belt_arm.strategies import Strategy
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.queue.action_queue import ActionQueue, DelayPolicy, MergeMode
from remote_inference.robot.queue.plan import ChunkSource, QueuedAction

REQUEST_EVERY_TICKS = 10

Chunk = tuple[Float32Array, Float32Array]  # model space, robot space: `[horizon, 6]` each
Ask = Callable[[Float32Array | None, Float32Array | None, int], Chunk]


class Link:
    """The latency of the policy's answers: of each, and as the robot expects it."""

    def __init__(
        self, latency_s: float, *, jitter_s: float = 0.0, hint_error_s: float = 0.0, seed: int = 0
    ) -> None:
        """jitter_s: largest deviation of an answer's latency, either way; uniform, and 0 is the least.

        hint_error_s: what the robot's expectation is wrong by; else it is its 0.95 quantile.
        """
        self._latency_s = latency_s
        self._jitter_s = jitter_s
        self._rng = np.random.default_rng([seed, 3])
        self.expected_ticks = ticks(max(0.0, latency_s + 0.9 * jitter_s + hint_error_s))

    def draw_ticks(self) -> int:
        """Return the latency of the next answer."""
        deviation_s = self._rng.uniform(-self._jitter_s, self._jitter_s) if self._jitter_s else 0.0
        return ticks(max(0.0, self._latency_s + deviation_s))


def ticks(duration_s: float) -> int:
    """Return the control ticks that begin within a duration."""
    return math.ceil(duration_s * CONTROL_HZ - 1e-9)


@dataclass(frozen=True)
class _Answer:
    """A chunk on its way, and what was true when it was asked for."""

    tick: int
    latency_ticks: int
    executed: int
    chunk: Chunk


class DelayedRobot:
    """One episode of a robot that executes late chunks by a strategy."""

    def __init__(
        self, strategy: Strategy, link: Link, ask: Ask, *, request_every_ticks: int = REQUEST_EVERY_TICKS
    ) -> None:
        """ask: returns the chunk for the present, of the prefix in both spaces and a delay [ticks]."""
        config = RobotConfig.model_validate(strategy.parameters)
        self._queue = ActionQueue(DelayPolicy(config.delay_policy))
        self._merge_mode = MergeMode(config.merge_mode)
        self._horizon = config.execution_horizon or None
        self._blocking = config.request_mode == "blocking"
        self._sends_prefix = strategy.sends_prefix
        self._link = link
        self._ask = ask
        self._request_every_ticks = request_every_ticks
        self._ticks = 0
        self._requests = 0
        self._asked_tick = 0
        self._pending: _Answer | None = None

    @property
    def queued_actions(self) -> Float32Array | None:
        """The actions still to execute `[n, 6]`, robot space; None when there is none."""
        return self._queue.left_over_robot()

    def tick(self) -> QueuedAction | None:
        """Return the action of this control tick, None when there is nothing to execute."""
        if self._pending is None and self._wants_request():
            self._request()
        pending = self._pending
        if pending is not None and self._ticks - pending.tick >= pending.latency_ticks:
            self._merge(pending)
            self._pending = None
        self._ticks += 1
        return self._queue.get()

    def _wants_request(self) -> bool:
        if not len(self._queue):
            return True
        return not self._blocking and self._ticks - self._asked_tick >= self._request_every_ticks

    def _request(self) -> None:
        model = self._queue.left_over() if self._sends_prefix else None
        robot = self._queue.left_over_robot() if self._sends_prefix else None
        chunk = self._ask(model, robot, self._link.expected_ticks)
        self._pending = _Answer(self._ticks, self._link.draw_ticks(), self._queue.executed, chunk)
        self._asked_tick = self._ticks

    def _merge(self, answer: _Answer) -> None:
        self._requests += 1
        source = ChunkSource(
            capture_ns=round(answer.tick / CONTROL_HZ * 1e9),
            session_id="",
            seq_id=self._requests,
            episode_id=0,
            policy_version="",
            task="",
        )
        self._queue.merge(
            source,
            *answer.chunk,
            self._merge_mode,
            latency_steps=answer.latency_ticks,
            executed_before=answer.executed,
            horizon=self._horizon,
        )
