# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""When a robot's controllers must be stopped because its control thread has fallen silent: both sides of it.

The control thread beats. A separate process, the command watchdog, receives the heartbeats and checks them.
The silent node may be killed, frozen, stuck in one thread or starved of processor time: from outside these
are the same. A thread that was stuck goes on where it stood, but the watchdog has stopped the arm meanwhile:
so the thread itself knows from the clock, before its next command, that it was given up.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum

from remote_inference.base.contract.controller_stop import STOPS

MAX_FAILED = 8  # distinct instances that are kept: whoever publishes beats must not fill the memory


class Phase(IntEnum):
    """What a heartbeat says; the values are those of Heartbeat.msg."""

    IDLE = 0
    COMMANDING = 1
    ENDED = 2
    ABANDONED = 3


class WatchdogState(IntEnum):
    """The values are those of WatchdogState.msg."""

    DISARMED = 0
    ARMED = 1
    TRIPPED = 2
    RETURNED = 3


class WatchdogEvent(Enum):
    """The events that may change the state."""

    COMMANDS = "a robot node commands"
    IDLES = "the robot node is alive and commands nothing"
    ENDS = "the robot node ended in order"
    COMES_BACK = "a robot node for which the controllers were stopped commands on, and has not paused"
    FAILS = "a robot node that commanded fell silent, or ended without stopping its controllers"


LATCHED = frozenset({WatchdogState.TRIPPED, WatchdogState.RETURNED})

# Explanations that `make docs` writes into the pages.
DESCRIPTIONS: Mapping[WatchdogState, str] = {
    WatchdogState.DISARMED: "the robot node commands nothing, or was never heard; its silence is in order",
    WatchdogState.ARMED: "the robot node commands: its silence stops the controllers",
    WatchdogState.TRIPPED: "the controllers were stopped; the robot node is silent, or has not paused yet",
    WatchdogState.RETURNED: "the controllers were stopped; the robot node is back, paused, and waits for "
    "`resume`",
}

# Pairs that are not listed change nothing. A node that comes back commanding must pause first.
TRANSITIONS: Mapping[tuple[WatchdogState, WatchdogEvent], WatchdogState] = {
    (WatchdogState.DISARMED, WatchdogEvent.COMMANDS): WatchdogState.ARMED,
    (WatchdogState.DISARMED, WatchdogEvent.FAILS): WatchdogState.TRIPPED,
    (WatchdogState.ARMED, WatchdogEvent.IDLES): WatchdogState.DISARMED,
    (WatchdogState.ARMED, WatchdogEvent.ENDS): WatchdogState.DISARMED,
    (WatchdogState.ARMED, WatchdogEvent.FAILS): WatchdogState.TRIPPED,
    (WatchdogState.TRIPPED, WatchdogEvent.IDLES): WatchdogState.RETURNED,
    (WatchdogState.TRIPPED, WatchdogEvent.FAILS): WatchdogState.TRIPPED,
    (WatchdogState.RETURNED, WatchdogEvent.COMMANDS): WatchdogState.ARMED,
    # Another process had idled meanwhile.
    (WatchdogState.RETURNED, WatchdogEvent.COMES_BACK): WatchdogState.TRIPPED,
    (WatchdogState.RETURNED, WatchdogEvent.FAILS): WatchdogState.TRIPPED,
}


@dataclass
class _Life:
    """One robot node that commands."""

    heard_ns: int
    deadline_ns: int
    excused: bool = False  # a gap since it was heard has not counted as its silence


class Watchdog:
    """The watchdog's state; `now_ns` is a monotonic time [ns] and never falls.

    Each process of the robot's node is watched by itself: the beats of one do not stand for another.
    """

    def __init__(self) -> None:
        self.state = WatchdogState.DISARMED
        self.cause = "no heartbeat received yet"
        self.trips = 0
        self._commanding: dict[int, _Life] = {}  # by instance
        self._checked_ns: int | None = None
        self._stops_left = 0
        # Instances for which the controllers were stopped, not heard since; the newest ones.
        self._failed: deque[int] = deque(maxlen=MAX_FAILED)

    @property
    def armed(self) -> bool:
        """Whether silence would stop the controllers, or is being answered."""
        return bool(self._commanding) or self._stops_left > 0

    @property
    def silent(self) -> bool:
        """Whether the controllers were stopped, and since then nobody commands or has come back.

        That another process of the robot idles, which may wait, says nothing of the one that failed.
        """
        return bool(self._failed) and not self._commanding

    def receive(self, instance: int, phase_value: int, deadline_s: float, now_ns: int) -> None:
        """Handle a heartbeat. deadline_s: silence after which a commanding node counts as dead [s].

        Raises ValueError for a heartbeat that no robot node sends.
        """
        if phase_value not in list(Phase) or not 0.0 < deadline_s < math.inf:
            found = f"found phase {phase_value} and deadline_s {deadline_s}"
            raise ValueError(f"{found}, expected a phase of Heartbeat.msg and a finite time above 0")
        phase = Phase(phase_value)
        comes_back = instance in self._failed
        if comes_back:
            self._failed.remove(instance)
        if phase is Phase.COMMANDING:
            self._failed.clear()
            self._stops_left = 0  # never against a living node
            self._commanding[instance] = _Life(now_ns, round(deadline_s * 1e9))
            event = WatchdogEvent.COMES_BACK if comes_back else WatchdogEvent.COMMANDS
            self._apply(event, event.value)
            return
        self._commanding.pop(instance, None)
        if phase is Phase.ABANDONED:
            self._trip(instance, "the robot node ended without stopping its controllers")
        elif not self._commanding:
            event = WatchdogEvent.ENDS if phase is Phase.ENDED else WatchdogEvent.IDLES
            self._apply(event, event.value)

    def check(self, now_ns: int) -> bool:
        """Check for silence; return whether each controller must be sent its stop now.

        Call it several times within a deadline. Time in which it was not called does not count as silence:
        the heartbeats of a watchdog that hung itself are still waiting to be taken. But only once: a
        watchdog that is always called late would stop nobody.
        """
        since_ns, self._checked_ns = self._checked_ns, now_ns
        for instance, life in list(self._commanding.items()):
            if since_ns is not None and now_ns - since_ns > life.deadline_ns // 2 and not life.excused:
                life.heard_ns, life.excused = now_ns, True
            silence_ns = now_ns - life.heard_ns
            if silence_ns > life.deadline_ns:
                del self._commanding[instance]
                silence = f"silent for {silence_ns / 1e9:.2f} s"
                self._trip(instance, f"the robot node's control thread has been {silence}")
        if not self._stops_left:
            return False
        self._stops_left -= 1
        return True

    def _trip(self, instance: int, cause: str) -> None:
        self._stops_left = STOPS
        self._failed.append(instance)
        self.trips += 1
        self._apply(WatchdogEvent.FAILS, cause)

    def _apply(self, event: WatchdogEvent, cause: str) -> None:
        after = TRANSITIONS.get((self.state, event))
        if after is not None:
            # Until the robot is resumed, the cause of its stop stays.
            if event is WatchdogEvent.FAILS or after not in LATCHED:
                self.cause = cause
            self.state = after


# -- The robot's side --------------------------------------------------------------------------------------

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
