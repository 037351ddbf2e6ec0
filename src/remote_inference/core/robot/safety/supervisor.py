# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The safety supervisor: watches chunks, actions, joints and the server, and moves the safety state."""

from __future__ import annotations

from remote_inference.core.robot.config import RobotConfig
from remote_inference.core.robot.safety.effects import Effect, Report, Warn
from remote_inference.core.robot.safety.state_machine import Event, State, StateMachine

Finding = tuple[Event, str]  # the event and its cause


class Outage:
    """Counts what loses the session, and measures the time after which the robot gives up."""

    def __init__(self, max_failures: int, max_offline_ns: int) -> None:
        self._max_failures = max_failures
        self._max_offline_ns = max_offline_ns
        self._offline_since_ns: int | None = None
        self.failures = 0  # requests in a row without a chunk in time

    @property
    def loses_session(self) -> bool:
        """True when too many requests have failed in a row."""
        return self.failures >= self._max_failures

    def end(self) -> None:
        """Note a chunk in time: nothing else ends the time offline."""
        self.failures = 0
        self._offline_since_ns = None

    def begin(self, now_ns: int) -> None:
        """Note that the session is lost."""
        if self._offline_since_ns is None:
            self._offline_since_ns = now_ns

    def hold(self, now_ns: int) -> None:
        """Begin the time offline anew: the robot has not missed the server until now."""
        if self._offline_since_ns is not None:
            self._offline_since_ns = now_ns

    def is_too_long(self, now_ns: int) -> bool:
        """Return whether the robot must give up."""
        return self._offline_since_ns is not None and now_ns - self._offline_since_ns >= self._max_offline_ns


class FlowWatch:
    """Finds what makes the robot DEGRADED or STALLED. For the engine's thread."""

    def __init__(self, degraded_after_s: float) -> None:
        self._degraded_after_s = degraded_after_s
        self._wanted_since_ns: int | None = None
        self._fed = False  # true once a chunk has been merged in this plan
        self._told_astray: tuple[str, ...] = ()

    def note_merge(self) -> None:
        """Note a merged chunk."""
        self._fed = True
        self._wanted_since_ns = None

    def want_nothing(self) -> None:
        """Note that the robot asks for no chunk now."""
        self._wanted_since_ns = None

    def begin_plan(self) -> None:
        """Note that the queue was emptied on purpose."""
        self._fed = False
        self._wanted_since_ns = None

    def look(
        self, now_ns: int, *, wants_chunk: bool, starved: str, queue_empty: bool, may_be_empty: bool
    ) -> list[Finding]:
        """Return what is wrong with the flow of actions.

        starved: why the last tick had nothing to execute, "" when it had. may_be_empty: the queue runs empty
        before each request, and only a chunk that is late is news.
        """
        if not wants_chunk:
            self._wanted_since_ns = None
        elif self._wanted_since_ns is None:
            self._wanted_since_ns = now_ns
        late = self._wanted_since_ns is not None and now_ns - self._wanted_since_ns >= int(
            self._degraded_after_s * 1e9
        )
        findings: list[Finding] = []
        if late:
            findings.append((Event.CHUNKS_LATE, f"no chunk for {self._degraded_after_s:g} s"))
        expected = not self._fed or may_be_empty
        if starved and queue_empty and (late or not expected):
            findings.append((Event.STARVED, starved))
        return findings

    def look_at_joints(self, astray: tuple[str, ...]) -> tuple[str, bool]:
        """Return what to say of joints that do not follow, "" for none, and whether these are news."""
        news = astray != self._told_astray
        self._told_astray = astray
        if not astray:
            return "", False
        return f"{', '.join(astray)}: farther from the last command than max_following_error", news


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
