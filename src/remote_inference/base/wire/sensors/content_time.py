# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""When a sensor message's content was captured, on the robot's clock, by its arrival and its stamp.

A message counts from its arrival. Stamps are never compared with the robot's clock, only with one another:
they show which messages a driver repeats, which ones come late behind a newer one, and which ones waited
while nothing arrived, for example in the buffers of a process that was stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# -- When a message says that it was made, where its type has a header -----------------------------------


def is_stamped(kind: Any) -> bool:
    """Return whether the messages of a class have a header, whose stamp identifies a repeated message."""
    return bool(kind.get_fields_and_field_types().get("header") == "std_msgs/Header")


def stamp_reader(kind: Any) -> Callable[[Any], int]:
    """Return a function that reads the stamp of a class's messages [ns]: 0 without a header."""
    return stamp_ns if is_stamped(kind) else lambda _: 0


def stamp_ns(message: Any) -> int:
    """Return a message's stamp [ns]."""
    stamp = message.header.stamp
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


GAP_NS = 300_000_000  # after this time without an arrival, messages may have been waiting ...
GAP_INTERVALS = 2  # ... unless the topic is as slow as that: a gap is so many times its usual interval
CAUGHT_UP_NS = 100_000_000  # content that lags no more than this is taken as arriving now
SETTLE_NS = 1_000_000_000  # content that still lags after this time has slow stamps, as in a simulation
SETTLE_WITH_GAPS_NS = 3_000_000_000  # ... though there were gaps again and again
SET_BACK_NS = 300_000_000  # of nothing but older stamps: the driver's clock was set, or it begins anew


class ContentClock:
    """The content times of one topic's messages, in the order of their arrival."""

    def __init__(self) -> None:
        self._stamp_ns = 0
        self._content_ns: int | None = None
        self._arrival_ns = 0
        self._interval_ns = 0  # between the last arrivals without a gap
        self._gap_ns = 0  # when the last gap ended
        self._lagging_since_ns: int | None = None
        self._older_since_ns: int | None = None  # since then all stamps were older than the newest

    def content_ns(self, stamp_ns: int, arrival_ns: int) -> int | None:
        """Return when a message's content was captured [monotonic ns]; None when it is nothing new.

        That repeats the last one, or has an older stamp than that, unless the driver's clock was set.

        stamp_ns: of the header, 0 when the driver leaves it out; then only the arrival counts.
        """
        if self._content_ns is None or not stamp_ns:
            return self._accept(stamp_ns, arrival_ns, arrival_ns)
        if stamp_ns < self._stamp_ns:
            if self._older_since_ns is None:
                self._older_since_ns = arrival_ns
            if arrival_ns - self._older_since_ns < SET_BACK_NS:
                return None
            self._lagging_since_ns = None
            return self._accept(stamp_ns, arrival_ns, arrival_ns)
        self._older_since_ns = None
        if stamp_ns == self._stamp_ns:
            return None
        self._detect_gap(arrival_ns)
        if self._lagging_since_ns is None or self._has_settled(arrival_ns, self._lagging_since_ns):
            self._lagging_since_ns = None
            return self._accept(stamp_ns, arrival_ns, arrival_ns)
        content_ns = self._content_ns + stamp_ns - self._stamp_ns
        if not self._content_ns < content_ns < arrival_ns - CAUGHT_UP_NS:  # caught up, or the clock was set
            self._lagging_since_ns = None
            content_ns = arrival_ns
        return self._accept(stamp_ns, arrival_ns, content_ns)

    def _detect_gap(self, arrival_ns: int) -> None:
        interval_ns = arrival_ns - self._arrival_ns
        if interval_ns <= max(GAP_NS, GAP_INTERVALS * self._interval_ns):
            self._interval_ns = interval_ns
            return
        self._interval_ns = max(GAP_NS, GAP_INTERVALS * self._interval_ns)  # a slow topic is soon known
        self._gap_ns = arrival_ns
        if self._lagging_since_ns is None:
            self._lagging_since_ns = arrival_ns

    def _has_settled(self, arrival_ns: int, lagging_since_ns: int) -> bool:
        lasts_ns = arrival_ns - lagging_since_ns
        return arrival_ns - self._gap_ns > SETTLE_NS or lasts_ns > SETTLE_WITH_GAPS_NS

    def _accept(self, stamp_ns: int, arrival_ns: int, content_ns: int) -> int:
        self._older_since_ns = None
        self._stamp_ns, self._arrival_ns, self._content_ns = stamp_ns, arrival_ns, content_ns
        return content_ns
