# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The safety supervisor: watches chunks, actions, joints and the server, and moves the safety state."""

from __future__ import annotations

from remote_inference.core.robot.config import RobotConfig
from remote_inference.core.robot.effects import Effect, Report, Warn
from remote_inference.core.robot.flow_watch import FlowWatch
from remote_inference.core.robot.outage import Outage
from remote_inference.core.robot.state_machine import Event, State, StateMachine


class Supervisor:
    """Owns the state machine and the watches behind its events. For the engine's thread."""

    def __init__(self, config: RobotConfig) -> None:
        self.machine = StateMachine()
        self._flow = FlowWatch(config.degraded_after_s)
        self._outage = Outage(config.max_timeouts, int(config.max_offline_s * 1e9))
        self._queue_may_be_empty = config.request_mode == "blocking"

    @property
    def failures(self) -> int:
        """Requests in a row without a chunk in time."""
        return self._outage.failures

    @property
    def loses_session(self) -> bool:
        """True when too many requests have failed in a row."""
        return self._outage.loses_session

    def apply(self, event: Event, cause: str) -> list[Effect]:
        """Apply an event to the state machine; return the report of its transition, if it has one."""
        transition = self.machine.apply(event, cause)
        return [Report(transition)] if transition else []

    # -- requests and the session --------------------------------------------------------------------------

    def take_merge(self, seq_id: int, *, astray: bool) -> list[Effect]:
        """Take a chunk in time. astray: a joint does not follow its commands."""
        self._outage.end()
        self._flow.note_merge()
        # A chunk leads an arm nowhere that does not follow.
        if astray and self.machine.state is State.STALLED:
            return []
        return self.apply(Event.CHUNK_MERGED, f"chunk {seq_id} merged")

    def take_failure(self) -> None:
        """Take a request without a chunk in time."""
        self._outage.failures += 1

    def forgive(self) -> None:
        """Count the failures in a row anew."""
        self._outage.failures = 0

    def lose_session(self, cause: str, now_ns: int) -> list[Effect]:
        """Take the end of the session: from now on the robot is offline until a chunk comes in time."""
        self._outage.begin(now_ns)
        return self.apply(Event.SESSION_LOST, cause)

    def need_no_server(self, now_ns: int) -> None:
        """Begin the time offline anew: the robot has not missed the server until now."""
        self._outage.hold(now_ns)

    def is_offline_too_long(self, now_ns: int) -> bool:
        """Return whether the robot must give up."""
        return self._outage.is_too_long(now_ns)

    # -- chunks, actions and joints ------------------------------------------------------------------------

    def want_nothing(self) -> None:
        """Note that the robot asks for no chunk now."""
        self._flow.want_nothing()

    def begin_plan(self) -> None:
        """Note that the queue was emptied on purpose."""
        self._flow.begin_plan()

    def look(
        self, now_ns: int, *, wants_chunk: bool, starved: str, queue_empty: bool, astray: tuple[str, ...]
    ) -> list[Effect]:
        """Judge whether chunks and actions come as they should, and whether the joints follow them.

        starved: why the last tick had nothing to execute, "" when it had. astray: joints that do not follow.
        """
        findings = self._flow.look(
            now_ns,
            wants_chunk=wants_chunk,
            starved=starved,
            queue_empty=queue_empty,
            may_be_empty=self._queue_may_be_empty,
        )
        effects = [effect for event, cause in findings for effect in self.apply(event, cause)]
        cause, is_news = self._flow.look_at_joints(astray)
        if is_news:
            effects.append(Warn(cause))
        return effects + (self.apply(Event.STARVED, cause) if cause else [])
