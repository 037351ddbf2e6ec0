# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the robot's journal knows of times: when sensors had arrived at a request, and when a chunk came."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from remote_inference.core.robot.journal import Entry, time_of
from remote_inference.recording.timeline.answers import RequestKey
from remote_inference.wire import WireError
from remote_inference.wire.decisions import DecisionDecoder

_REMEMBERED = 5_000  # calls of the engine; a request and the journal's message of it are a moment apart


class _Seen(NamedTuple):
    """Arrivals of the newest message by topic."""

    by_now: Mapping[str, int]
    by_last_tick: Mapping[str, int]  # what an observation of several control ticks shows

    def of(self, *, of_ticks: bool) -> Mapping[str, int]:
        return self.by_last_tick if of_ticks else self.by_now


class JournalTimes:
    """Takes the messages of the topic `decisions` and the requests' times, in any order of the two.

    All times are the robot's monotonic clock [ns].
    """

    def __init__(self) -> None:
        self._decoder = DecisionDecoder()
        self._run: tuple[int, int] | None = None  # instance, and place of the entry that must come next
        self._calls: OrderedDict[int, _Seen] = OrderedDict()  # by the time of the call
        self._seen = _Seen({}, {})
        self._wanted: dict[int, bool] = {}
        self.arrivals: dict[int, Mapping[str, int]] = {}  # by the time of a request
        self.chunk_ns: dict[RequestKey, int] = {}  # when a request's first chunk came to the robot
        self.problem = ""  # why something of the journal could not be read

    def want(self, request_ns: int, *, of_ticks: bool) -> None:
        """Remember the arrivals of a request that was made then. of_ticks: its observation shows ticks."""
        if request_ns in self._calls:
            self.arrivals[request_ns] = self._calls[request_ns].of(of_ticks=of_ticks)
        else:
            self._wanted[request_ns] = of_ticks

    def take(self, message: Any) -> None:
        """Take a message of the journal."""
        run = int(message.instance), int(message.first)
        if run != self._run:  # another run of the node, or entries are missing: what is known is no longer so
            self._decoder, self._seen = DecisionDecoder(), _Seen({}, {})
        self._run = run[0], run[1] + int(message.count)
        try:
            for entry in self._decoder.decode(bytes(message.data)):
                self._take_entry(entry)
        except (WireError, IndexError, TypeError, AttributeError) as error:
            self.problem = self.problem or str(error)
            self._run = None

    def _take_entry(self, entry: Entry) -> None:
        method, arguments = entry.method, entry.arguments
        if method == "take_sensors":
            samples = arguments[3] if len(arguments) > 3 else ()
            self._seen = _Seen(arguments[0], samples[-1].arrivals if samples else self._seen.by_last_tick)
        elif method == "take_chunk":
            chunk, taken_ns = arguments[:2]
            arrival_ns = entry.named.get("arrival_ns")  # older journals have none
            came_ns = taken_ns if arrival_ns is None else arrival_ns
            self.chunk_ns.setdefault((chunk.session_id, chunk.seq_id), came_ns)
        if (now_ns := time_of(entry)) is not None:
            self._note(now_ns)

    def _note(self, now_ns: int) -> None:
        if now_ns in self._wanted:
            self.arrivals[now_ns] = self._seen.of(of_ticks=self._wanted.pop(now_ns))
        self._calls[now_ns] = self._seen
        if len(self._calls) > _REMEMBERED:
            self._calls.popitem(last=False)
