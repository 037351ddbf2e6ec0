# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's side of the command watchdog: when the control thread beats, and when it must pause.

A control thread that was stuck goes on where it stood, but the watchdog has stopped the arm meanwhile. So the
thread itself knows from the clock, before its next command, that it was given up.
"""

from __future__ import annotations

from remote_inference.robot.watchdog import LATCHED, Phase, WatchdogState

# -- Staleness of the executor: what waited while it hung is not new -------------------------------------


EXECUTOR_STALE_NS = 50_000_000  # without a callback of the executor: what came may wait
# Once it has run again for so long, whatever waited is processed: a callback takes well below a millisecond.
CATCH_UP_NS = 100_000_000
SETTLE_NS = 1_000_000_000  # an executor that still has pauses after this time is slow, and runs what comes


class ExecutorStaleness:
    """Until when the executor has processed what came. Updated on its thread; others may read."""

    def __init__(self, now_ns: int) -> None:
        self.heard_ns = now_ns
        """Monotonic time [ns] until which everything that came was processed."""
        self._updated_ns = now_ns
        self._caught_up_ns = now_ns
        self._behind_since_ns: int | None = None

    def update(self, now_ns: int) -> None:
        """Note that the executor runs. After a hang, it may have processed only a part of what waited."""
        if now_ns - self._updated_ns > EXECUTOR_STALE_NS:
            self._caught_up_ns = now_ns + CATCH_UP_NS
            if self._behind_since_ns is None:
                self._behind_since_ns = now_ns
        self._updated_ns = now_ns
        if now_ns >= self._caught_up_ns:
            self._behind_since_ns = None
        if self._behind_since_ns is None or now_ns - self._behind_since_ns > SETTLE_NS:
            self.heard_ns = now_ns


MIN_BEAT_PERIOD_S = 0.01  # faster beats cost processor time and do not tell sooner of a death
MAX_WATCHDOGS = 8  # distinct ones that are kept: whoever publishes there must not fill the memory


class Heartbeat:
    """The beats of one control thread, and the trips of the watchdogs that receive them."""

    def __init__(self, period_s: float, timeout_s: float) -> None:
        """period_s: of the control ticks. timeout_s: by how much a beat may be late."""
        self.deadline_s = timeout_s + max(period_s, MIN_BEAT_PERIOD_S)
        self._beat_ns: int | None = None
        self._withheld_ns: int | None = None  # since then no command has left
        self._phase = Phase.IDLE
        self._watched = False
        self._known_trips: dict[int, int] = {}  # by instance of a watchdog; that heard last is the last

    @property
    def idle(self) -> bool:
        """Whether the last beat said that nothing is commanded."""
        return self._phase is Phase.IDLE

    @property
    def withholds(self) -> bool:
        """Whether the last tick's command did not leave."""
        return self._withheld_ns is not None

    def was_given_up(self, now_ns: int) -> bool:
        """Return whether a watchdog has stopped the arm since the last beat. Ask before each command.

        Nor does a robot go on, watched or not, whose commands have not left for so long.
        """
        since_ns = self._beat_ns if self._watched and self._phase is Phase.COMMANDING else None
        return any(
            silent_ns is not None and now_ns - silent_ns > self.deadline_s * 1e9
            for silent_ns in (since_ns, self._withheld_ns)
        )

    def beat(self, now_ns: int, *, commanding: bool) -> Phase | None:
        """Return the beat that is due after a tick, None while the last one still stands."""
        self._withheld_ns = None
        phase = Phase.COMMANDING if commanding else Phase.IDLE
        due_ns = 0 if self._beat_ns is None else self._beat_ns + MIN_BEAT_PERIOD_S * 1e9
        if phase is self._phase and now_ns < due_ns:
            return None
        self._beat_ns, self._phase = now_ns, phase
        return phase

    def withhold(self, now_ns: int) -> Phase | None:
        """Return the beat that is due after a tick whose command did not leave: none after several in a row.

        What was commanded before is in force meanwhile, and nobody ends it: the watchdog must.
        """
        if self._withheld_ns is not None:
            return None
        beat = self.beat(now_ns, commanding=True)
        self._withheld_ns = now_ns
        return beat

    def hear_watchdog(self, instance: int, state_value: int, trips: int) -> bool:
        """Handle a watchdog's state; return whether the robot must pause: once for each trip.

        instance: of the watchdog's process, which counts its own trips.

        Raises ValueError for a state that no watchdog has.
        """
        if state_value not in list(WatchdogState):
            raise ValueError(f"found state {state_value}, expected one of WatchdogState.msg")
        latched = WatchdogState(state_value) in LATCHED
        known = self._known_trips.pop(instance, None)
        self._known_trips[instance] = max(trips, known or 0)
        if len(self._known_trips) > MAX_WATCHDOGS:
            del self._known_trips[next(iter(self._known_trips))]
        self._watched = True
        # One that is known may be armed again by now: the word of its trip was lost.
        return latched if known is None else trips > known
