# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""When a sensor message's content was captured, on the robot's clock, by its arrival and its stamp.

A message counts from its arrival. Stamps are never compared with the robot's clock, only with one another:
they show which messages a driver repeats, and which ones waited while nothing arrived, for example in the
buffers of a process that was stopped.
"""

from __future__ import annotations

HOLE_NS = 300_000_000  # after this time without an arrival, messages may have been waiting
CAUGHT_UP_NS = 100_000_000  # content that lags no more than this is taken as arriving now
SETTLE_NS = 1_000_000_000  # content that still lags after this time has slow stamps, as in a simulation


class ContentClock:
    """The content times of one topic's messages, in the order of their arrival."""

    def __init__(self) -> None:
        self._stamp_ns = 0
        self._content_ns: int | None = None
        self._arrival_ns = 0
        self._lagging_since_ns: int | None = None

    def content_ns(self, stamp_ns: int, arrival_ns: int) -> int | None:
        """Return when a message's content was captured [monotonic ns]; None when it repeats the last one's.

        stamp_ns: of the header, 0 when the driver leaves it out; then only the arrival counts.
        """
        if self._content_ns is None or not stamp_ns:
            return self._accept(stamp_ns, arrival_ns, arrival_ns)
        if stamp_ns == self._stamp_ns:
            return None
        if arrival_ns - self._arrival_ns > HOLE_NS:
            self._lagging_since_ns = arrival_ns
        if self._lagging_since_ns is None or arrival_ns - self._lagging_since_ns > SETTLE_NS:
            self._lagging_since_ns = None
            return self._accept(stamp_ns, arrival_ns, arrival_ns)
        content_ns = self._content_ns + stamp_ns - self._stamp_ns
        if not self._content_ns < content_ns < arrival_ns - CAUGHT_UP_NS:  # caught up, or the clock was set
            self._lagging_since_ns = None
            content_ns = arrival_ns
        return self._accept(stamp_ns, arrival_ns, content_ns)

    def _accept(self, stamp_ns: int, arrival_ns: int, content_ns: int) -> int:
        self._stamp_ns, self._arrival_ns, self._content_ns = stamp_ns, arrival_ns, content_ns
        return content_ns
