# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The action queue: what a robot has still to execute, and the two ways in which a chunk joins it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import dropwhile, groupby, islice, takewhile

import numpy as np

from remote_inference.base.policy import Float32Array
from remote_inference.robot.command import Float64Array
from remote_inference.robot.queue.ensemble import Ensemble
from remote_inference.robot.queue.latency import steps
from remote_inference.robot.queue.plan import ChunkSource, Plan, Progress, QueuedAction
from remote_inference.robot.step_lock import StepLock

MEMORY = 1000  # executed rows that a prefix may begin with: a second at the fastest control rate in use


class MergeMode(str, Enum):
    """How a chunk joins the queue. Only an `Ensemble` blends: means are actions that no policy predicted."""

    REPLACE = "replace"  # skip the stale actions, replace everything queued
    APPEND = "append"  # keep what is queued, append the chunk untrimmed


class DelayPolicy(str, Enum):
    """Which actions of a replacing chunk are stale."""

    CONSUMED = "consumed"  # at most as many as the robot executed since capture
    LATENCY = "latency"  # ceil(latency / period), LeRobot's rule
    NONE = "none"  # no rows, for experiments


@dataclass(frozen=True)
class Prefixes:
    """Rows of one instant in both spaces, float32 `[rows, action_dim]`; both None when there are none."""

    model: Float32Array | None
    robot: Float32Array | None


class ActionQueue:
    """Rows to execute, oldest first. Safe for one consuming and one merging thread.

    The lock is held while the plan is replaced, never while a chunk is prepared.
    """

    def __init__(
        self,
        delay_policy: DelayPolicy = DelayPolicy.CONSUMED,
        lock: StepLock | None = None,
        *,
        to_robot: Callable[[Float32Array], Float64Array] = np.float64,
        ensemble: Ensemble | None = None,
    ) -> None:
        """to_robot: returns rows `[rows, action_dim]` in the robot's units from those of a chunk.

        ensemble: joins a chunk with what it replaces; None: that is dropped.
        """
        self._delay_policy = delay_policy
        self._to_robot = to_robot
        self._ensemble = ensemble
        self._plan = Plan()
        self._taken: deque[QueuedAction] = deque(maxlen=MEMORY)
        self._taken_ns: deque[int] = deque(maxlen=MEMORY)  # when, in the same order
        self._executed = 0
        self._lock = lock or StepLock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._plan)

    @property
    def executed(self) -> int:
        """Actions taken so far."""
        with self._lock:
            return self._executed

    def executed_by(self, instants_ns: Mapping[str, int]) -> dict[str, int]:
        """Return how many actions had been taken by each instant, under its name.

        What is further back than MEMORY counts as taken by any.
        """
        with self._lock:
            return {name: self._executed - self._taken_since(at_ns) for name, at_ns in instants_ns.items()}

    def _taken_since(self, at_ns: int) -> int:
        newest_first = reversed(self._taken_ns)
        return sum(1 for _ in takewhile(lambda taken_ns: taken_ns > at_ns, newest_first))

    def get(self, now_ns: int = 0) -> QueuedAction | None:
        """Remove and return the next action, or None. It counts as executed.

        now_ns: not before that of the last one; only `executed_by` wants it.
        """
        with self._lock:
            head = self._plan.head
            if head is not None:
                self._plan = self._plan.after(1)
                self._execute(head, now_ns)
            return head

    def go_on(self, progress: Progress) -> None:
        """Apply how far a control tick has come in the plan that it found."""
        with self._lock:
            self._plan = progress.plan
            for action, taken_ns in progress.taken:
                self._execute(action, taken_ns)

    def _execute(self, action: QueuedAction, now_ns: int) -> None:
        self._executed += 1
        self._taken_ns.append(now_ns)
        self._taken.append(action)

    @property
    def plan(self) -> Plan:
        """The actions of one instant."""
        with self._lock:
            return self._plan

    def playback_left_ns(self, now_ns: int, period_ns: int, max_age_ns: int) -> int:
        """Return how long the queue will feed the robot from now on [ns].

        Each row takes a period. A row counts only until its observation is older than max_age_ns:
        what is left of its chunk then is deleted, and the next chunk goes on.
        """
        rows = self.plan.ahead
        if not rows:
            return 0
        if rows[0].source.capture_ns + max_age_ns >= now_ns + len(rows) * period_ns:  # the head is the oldest
            return len(rows) * period_ns
        ends_ns = now_ns
        for source, chunk in groupby(rows, key=lambda row: row.source):
            expires_ns = source.capture_ns + max_age_ns
            ends_ns = max(ends_ns, min(ends_ns + sum(1 for _ in chunk) * period_ns, expires_ns))
        return ends_ns - now_ns

    def left_over(self) -> Float32Array | None:
        """Return the unread model-space rows `[rows, action_dim]`, or None when drained."""
        return self.prefixes().model

    def left_over_robot(self) -> Float32Array | None:
        """Return the unread robot-space rows `[rows, action_dim]`, or None when drained."""
        return self.prefixes().robot

    def prefixes(
        self,
        executed_before: int | None = None,
        policy_fingerprint: str | None = None,
        oldest_ns: int | None = None,
    ) -> Prefixes:
        """Return the unread rows, preceded by those taken since `executed` was `executed_before`.

        policy_fingerprint: of the policy that is to continue them; None: whichever said them. oldest_ns:
        without the rows at the head whose observation was captured before, which will not be executed. Both
        spaces are of the same instant. Both are None when no row is left, when more rows were taken since
        than the queue remembers, or when another policy said one of them: model space is each policy's own.
        """
        with self._lock:
            since = 0 if executed_before is None else self._executed - executed_before
            unread = list(self._plan.ahead)
            if oldest_ns is not None:
                unread = list(dropwhile(lambda row: row.source.capture_ns < oldest_ns, unread))
            if not unread or since > len(self._taken):
                return Prefixes(None, None)
            rows = [*islice(self._taken, len(self._taken) - since, None), *unread]
        policies = {row.source.policy_fingerprint for row in rows}
        if policy_fingerprint is not None and policies != {policy_fingerprint}:
            return Prefixes(None, None)
        return Prefixes(np.stack([row.model for row in rows]), np.stack([row.robot for row in rows]))

    def merge(
        self,
        source: ChunkSource,
        model: Float32Array,
        robot: Float32Array,
        mode: MergeMode,
        *,
        latency_steps: int,
        executed_before: int,
        horizon: int | None = None,
        row_period_s: float | None = None,
        oldest_ns: int = 0,
    ) -> int:
        """Let a chunk `[horizon, action_dim]` join the queue; return how many of its rows were dropped.

        latency_steps: `ceil(latency / period)` from capture to now. executed_before: `executed` at capture.
        horizon: rows that may join, None for all. row_period_s: then the delay reaches to the last row that
        was taken, if that is later than the caller's now: its thread may have stood still since. oldest_ns:
        for the ensemble.

        Rows may be skipped only for ticks in which the robot really moved: trimming a chunk that arrives at a
        robot held still would command a jump, hence DelayPolicy.CONSUMED.
        """
        rows = [
            QueuedAction(source, index, model_row, robot_row)
            for index, (model_row, robot_row) in enumerate(zip(model, robot, strict=True))
        ]
        captures_ns = np.full(len(rows), source.capture_ns, np.int64)
        chunk = Plan(tuple(rows), self._to_robot(robot), captures_ns)
        with self._lock:
            if row_period_s is not None and self._taken_ns:
                taken_s = (self._taken_ns[-1] - source.capture_ns) / 1e9
                latency_steps = max(latency_steps, steps(taken_s, row_period_s))
            if mode is MergeMode.APPEND:
                self._plan = self._plan.join(chunk.first(horizon))
                return 0
            delay = self._delay(latency_steps, self._executed - executed_before)
            dropped = min(max(delay, 0), len(rows))
            chunk = chunk.after(dropped)
            if self._ensemble is not None:
                chunk = self._ensemble.join(self._plan, chunk, oldest_ns)
            self._plan = chunk.first(horizon)
            return dropped

    def _delay(self, latency_steps: int, executed_since: int) -> int:
        if self._delay_policy is DelayPolicy.CONSUMED:
            return min(latency_steps, executed_since)
        return latency_steps if self._delay_policy is DelayPolicy.LATENCY else 0

    def clear(self) -> None:
        with self._lock:
            self._plan = Plan()
