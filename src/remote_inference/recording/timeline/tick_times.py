# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""When control ticks were, and in what order, though somebody may have set a clock meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from remote_inference.recording.bags.bag_clock import JUMP_NS
from remote_inference.recording.timeline.answers import CLOCKS_AGREE_NS, stamp_of

RESTART = 10  # ticks by which a number falls back only when the node has begun anew ...
RESTART_S = 0.5  # ... or by any, after a time in which no node ends and begins
MOST_MIXED = 3  # ticks; fewer may be those of a node that began anew, with messages lost


class TickTimes:
    """Gives each control tick its instant [ns]; instants rise.

    They are the ticks' stamps, or their receptions where stamps are of another clock than the recorder's. A
    node whose clock is set stamps on from another time, which no longer fits the receptions of its sensors:
    from there on instants are receptions, too.
    """

    def __init__(self, offset_ns: int = 0) -> None:
        """offset_ns: of the recorder's clock to the robot's, as `find_offset` finds it."""
        self.offset_ns = offset_ns
        self.jump_ns: int | None = None  # the first one of the stamps against the receptions
        self.jumped_at_ns = 0
        self._last_ns: int | None = None
        self._last_tick = 0
        self.least_lag_ns: int | None = None  # of a reception after its stamp, while clocks agree

    def at(self, received_ns: int, message: Any) -> int:
        """Return the instant of an ExecutedAction."""
        stamp_ns, tick = stamp_of(message), int(message.tick)
        lag_ns = received_ns - stamp_ns
        shown_ns = stamp_ns + self.offset_ns
        agrees = abs(lag_ns) <= CLOCKS_AGREE_NS
        if self.jump_ns is None and self.least_lag_ns is not None:
            went_back = self._last_ns is not None and shown_ns <= self._last_ns and tick > self._last_tick
            if went_back or not agrees or lag_ns < self.least_lag_ns - JUMP_NS:
                self.jump_ns, self.jumped_at_ns = self.least_lag_ns - lag_ns, received_ns
        t_ns = shown_ns if agrees and self.jump_ns is None else received_ns
        if self._last_ns is not None and t_ns <= self._last_ns:
            t_ns = self._last_ns + 1
        self._last_ns, self._last_tick = t_ns, tick
        if agrees:
            self.least_lag_ns = lag_ns if self.least_lag_ns is None else min(lag_ns, self.least_lag_ns)
        return t_ns


def find_offset(ticks: Iterable[tuple[int, Any]]) -> int:
    """Return what to add to the stamps of ticks for the recorder's clock [ns], by their receptions.

    A recorder on another machine may have another clock, by which all sensors are received. No tick is
    received before it is stamped, and the quickest one is hardly late: what is left is the clocks'
    difference, or the network's least delay, which the sensors have, too. 0: there is one clock.
    """
    times, least_ns = TickTimes(), None
    for received_ns, message in ticks:
        times.at(received_ns, message)
        if times.jump_ns is not None:
            break
        least_ns = times.least_lag_ns
    return least_ns if least_ns is not None and not 0 <= least_ns <= JUMP_NS else 0


class TickNumbers:
    """Notices in the numbers of control ticks that the node has begun anew.

    They rise until then. Those of another sender of the same name may lie between. The first ticks of a node
    may be missed, and so may all that were below the last one of the node before it.
    """

    def __init__(self) -> None:
        self._newest, self._time_s = -1, 0.0

    def begin_anew(self, number: int, time_s: float) -> bool:
        """Take the next number, and its time; return whether it is of a node that has begun anew."""
        newest, before_s = self._newest, self._time_s
        self._newest, self._time_s = max(newest, number), time_s
        return number + RESTART < newest or (number <= newest and time_s - before_s > RESTART_S)


class TickOrder:
    """Notices that the control ticks of two times are mixed: the times of reception went back in the bag.

    A tick that falls back may be a node's that began anew. Then one that continues the ticks before the fall,
    and not those behind it, is of no such node.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._left = -1  # tick before the newest fall
        self._mixed = 0

    def is_mixed_with(self, tick: int) -> bool:
        """Take a tick; return whether there were so many of another time by now that it is no chance."""
        if self._last is not None:
            self._mixed += tick == self._left + 1 and tick != self._last + 1
            if tick <= self._last:
                self._left = self._last
        self._last = tick
        return self._mixed >= MOST_MIXED
