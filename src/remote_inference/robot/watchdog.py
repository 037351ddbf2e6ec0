# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Decides when a robot's controllers must be stopped because its control thread has fallen silent.

A separate process receives the heartbeats and checks them. The silent node may be killed, frozen, stuck in
one thread or starved of processor time: from outside these are the same.
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
            raise ValueError(
                f"found phase {phase_value} and deadline_s {deadline_s}, expected a phase of Heartbeat.msg "
                "and a finite time above 0"
            )
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
                self._trip(
                    instance, f"the robot node's control thread has been silent for {silence_ns / 1e9:.2f} s"
                )
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
