# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One run of the policy on a task, as a behaviour tree asks for it: until when, and how it ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from remote_inference.robot.engine import Engine
from remote_inference.robot.operated_robot import PAUSED_MEANWHILE
from remote_inference.robot.safety.effects import Effect

MAX_DURATION_S = 86_400.0


class Termination(IntEnum):
    """How a run ended; the values are those of RunPolicy.action."""

    SUCCEEDED = 0
    TIME_OUT = 1
    CANCELED = 2
    STOPPED = 3
    TAKEN_OVER = 4
    OFFLINE = 5
    ERROR = 6


@dataclass(frozen=True)
class RobotView:
    """The robot at one instant, as far as a run depends on it."""

    state_name: str
    cause: str  # of the last transition of the state
    dead: bool
    offline: bool  # it is dead because it found no server for too long
    stop: str  # latched, empty without one
    policy_refused: str  # by its server, in words
    taken_over: bool
    paused: bool
    pauses: int  # called since start-up
    chunks: int  # merged since start-up
    holds: int  # ticks without an action of the policy since start-up
    interventions: int  # since start-up


@dataclass(frozen=True)
class Outcome:
    """The end of a run, and a sentence that says why."""

    termination: Termination
    message: str


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    state_name: str
    elapsed_s: float
    chunks: int
    holds: int
    interventions: int


def find_duration_problem(max_duration_s: float) -> str:
    """Return why a run cannot last so long [s], or an empty string."""
    if 0.0 <= max_duration_s <= MAX_DURATION_S:
        return ""
    return f"max_duration_s: found {max_duration_s:g}, expected 0 (no limit) to {MAX_DURATION_S:g}"


class TaskRun:
    """One run. For one thread, but for `begin`; times are of a monotonic clock [s]."""

    def __init__(self, max_duration_s: float, view: RobotView, now_s: float) -> None:
        """max_duration_s: 0 for no limit. view: of the instant at which the goal was accepted."""
        self.max_duration_s = max_duration_s
        self.deadline_s = now_s + max_duration_s if max_duration_s else math.inf
        self.begun = False  # the robot was let move: a pause is somebody else's from then on
        self.refusal = ""  # why the robot was not let move
        self.canceled = False
        self.succeeded = False
        self._begin = view
        self._begin_s = now_s

    def begin(self, engine: Engine, task: str, policy: str, now_ns: int) -> list[Effect]:
        """Begin an episode and let the robot move, unless since the goal it was paused or has given up.

        For the engine's thread, which may come to it late. policy: as of `Engine.reset`, found or not.
        now_ns: of the engine's clock.
        """
        pauses = self._begin.pauses
        self.refusal = (
            engine.refusal
            or engine.handshake.policies.find_problem(policy)
            or (PAUSED_MEANWHILE if engine.pauses > pauses else "")
        )
        if self.refusal:  # the queue stays, and the episode
            return []
        effects = engine.reset(task, now_ns, policy)
        self.refusal, more = engine.resume(now_ns, pauses) if engine.paused else ("", [])
        self.begun = not self.refusal
        return [*effects, *more]

    def find_outcome(self, view: RobotView, now_s: float) -> Outcome | None:
        """Return how the run ends, None while it goes on. What is dangerous counts before what was wished."""
        gave_up, limit_s = f"the robot gave up: {view.cause}", self.max_duration_s
        found = (
            (Termination.OFFLINE, gave_up if view.offline else ""),
            (Termination.ERROR, gave_up if view.dead else ""),
            (Termination.STOPPED, f"stopped by {view.stop}" if view.stop else ""),
            (Termination.ERROR, view.policy_refused if self.begun else ""),
            (Termination.STOPPED, "paused by somebody else" if self.begun and view.paused else ""),
            (Termination.STOPPED, f"not resumed: {self.refusal}" if self.refusal else ""),
            (Termination.TAKEN_OVER, "a person took over" if view.taken_over else ""),
            (Termination.SUCCEEDED, "the success topic said true" if self.succeeded else ""),
            (Termination.CANCELED, "canceled" if self.canceled else ""),
            (Termination.TIME_OUT, f"not done within {limit_s:g} s" if now_s >= self.deadline_s else ""),
        )
        return next((Outcome(termination, message) for termination, message in found if message), None)

    def progress(self, view: RobotView, now_s: float) -> Progress:
        """Return what has happened since the goal was accepted."""
        return Progress(
            view.state_name,
            now_s - self._begin_s,
            view.chunks - self._begin.chunks,
            view.holds - self._begin.holds,
            view.interventions - self._begin.interventions,
        )
