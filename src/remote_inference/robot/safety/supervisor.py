# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The safety supervisor: watches chunks, actions, joints and the server, and moves the safety state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from remote_inference.robot.config import RobotConfig, to_ns
from remote_inference.robot.safety.effects import Effect, Inform, Report, Warn
from remote_inference.robot.safety.state_machine import Event, State, StateMachine

MAX_STARTS = 5  # of a server that loads, until a chunk comes: one that starts more often crashes


class Supervisor:
    """Owns the state machine and what its events follow from. For the engine's thread."""

    def __init__(self, config: RobotConfig) -> None:
        self._config = config
        self._queue_may_be_empty = config.request_mode == "blocking"  # before each request
        self.machine = StateMachine()
        self.failures = 0
        """Requests in a row without a chunk in time."""
        self._offline_since_ns: int | None = None
        self._waits = ""  # for servers that load their policies, or no longer, in words
        self._starts: defaultdict[str, set[str]] = defaultdict(set)  # instances missed while they loaded
        self._wanted_since_ns: int | None = None  # a chunk
        self._is_fed = False  # a chunk has been merged in this plan
        self._not_following: tuple[str, ...] = ()  # joints, in the last update

    @property
    def cause(self) -> str:
        """Why the state was entered, and which servers load their policies, in words."""
        waits = self._waits if self.machine.state is not State.DEAD else ""
        return "; ".join(filter(None, (self.machine.cause, waits)))

    @property
    def loses_session(self) -> bool:
        """True when too many requests have failed in a row."""
        return self.failures >= self._config.max_timeouts

    def apply(self, event: Event, cause: str) -> list[Effect]:
        """Apply an event to the state machine; return the report of its transition, if it has one."""
        transition = self.machine.apply(event, cause)
        return [Report(transition)] if transition else []

    # -- requests and the session --------------------------------------------------------------------------

    def take_merge(self, seq_id: int, *, not_following: bool) -> list[Effect]:
        """Handle a chunk in time, which ends the time offline. not_following: a joint does not follow."""
        self.failures, self._offline_since_ns = 0, None
        self._is_fed, self._wanted_since_ns = True, None
        self._starts.clear()
        # A chunk leads an arm nowhere that does not follow.
        if not_following and self.machine.state is State.STALLED:
            return []
        return self.apply(Event.CHUNK_MERGED, f"chunk {seq_id} merged")

    def take_failure(self) -> None:
        """Count a request without a chunk in time."""
        self.failures += 1

    def forgive(self) -> None:
        """Count the failures in a row anew."""
        self.failures = 0

    def lose_session(self, cause: str, now_ns: int) -> list[Effect]:
        """Handle the end of the session: the robot is offline until a chunk comes in time."""
        if self._offline_since_ns is None:
            self._offline_since_ns = now_ns
        return self.apply(Event.SESSION_LOST, cause)

    def need_no_server(self, now_ns: int) -> None:
        """Begin the time offline and the counts of starts anew: the robot has missed no server until now."""
        self._starts.clear()
        self._begin_anew(now_ns)

    def _begin_anew(self, now_ns: int) -> None:
        if self._offline_since_ns is not None:
            self._offline_since_ns = now_ns

    def wait_for(self, loading: Mapping[str, str], now_ns: int) -> list[Effect]:
        """Note the servers that load their policy while the robot has no session: its time does not run.

        loading: the instance of each, "" if unknown. It runs for servers that crash while they load.
        """
        before, self._waits = self._waits, ""
        if self._offline_since_ns not in (None, now_ns):  # else nobody misses them
            for server, instance in loading.items():
                if instance and len(starts := self._starts[server]) <= MAX_STARTS:
                    starts.add(instance)
        awaited = [server for server in loading if len(self._starts[server]) <= MAX_STARTS]
        if awaited:
            self._begin_anew(now_ns)
            self._waits = f"waits for {' and '.join(awaited)} to load the policy"
        elif loading:
            self._waits = f"{' and '.join(loading)} started more than {MAX_STARTS} times and loads again"
        if self._waits in ("", before):
            return []
        told = f"{self._waits}: the clock of max_offline_s {'stands' if awaited else 'runs'}"
        return [Inform(told) if awaited else Warn(told)]

    def is_offline_too_long(self, now_ns: int) -> bool:
        """Return whether the robot must give up."""
        since_ns = self._offline_since_ns
        return since_ns is not None and now_ns - since_ns >= to_ns(self._config.max_offline_s)

    # -- chunks, actions and joints ------------------------------------------------------------------------

    def want_nothing(self) -> None:
        """Note that the robot asks for no chunk now."""
        self._wanted_since_ns = None

    def begin_plan(self) -> None:
        """Note that the queue was emptied on purpose."""
        self._is_fed, self._wanted_since_ns = False, None

    def update(
        self,
        now_ns: int,
        *,
        wants_chunk: bool,
        starved: str,
        queue_empty: bool,
        not_following: tuple[str, ...],
    ) -> list[Effect]:
        """Judge whether chunks and actions come as they should, and whether the joints follow them.

        starved: why the last tick had nothing to execute, "" when it had. not_following: joints.
        """
        if not wants_chunk:
            self._wanted_since_ns = None
        elif self._wanted_since_ns is None:
            self._wanted_since_ns = now_ns
        effects: list[Effect] = []
        since_ns, degraded_after_s = self._wanted_since_ns, self._config.degraded_after_s
        is_late = since_ns is not None and now_ns - since_ns >= to_ns(degraded_after_s)
        if is_late:
            effects += self.apply(Event.CHUNKS_LATE, f"no chunk for {degraded_after_s:g} s")
        is_expected = not self._is_fed or self._queue_may_be_empty
        if starved and queue_empty and (is_late or not is_expected):
            effects += self.apply(Event.STARVED, starved)
        before, self._not_following = self._not_following, not_following
        if not_following:
            cause = f"{', '.join(not_following)}: farther from the last command than max_following_error"
            effects += [Warn(cause)] if not_following != before else []
            effects += self.apply(Event.STARVED, cause)
        return effects
