# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tells the command watchdog's stops on a controller's topic from commands of anybody else.

A recording does not say who published a message. But the watchdog says when it has stopped the controllers,
and what it sends is known but for where the arm was, and how long before.
"""

from __future__ import annotations

from typing import Any

from builtin_interfaces.msg import Time

from remote_inference.core.contract.commands.sink import CommandSink
from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.controller_stop import (
    STOPS,
    Measured,
    is_ever_sent_a_stop,
    stop_controller,
)
from remote_inference.recording.decisions.exact import exact
from remote_inference.recording.timeline.columns import WatchdogStops
from remote_inference.wire import CommandReader, CommandWriter, WireError
from remote_inference.wire.commands import make_sink_reader
from remote_inference.wire.sensors import SensorError

BEFORE_S = 0.5  # its first stop is sent, and may be recorded, before it says so ...
AFTER_S = 1.0  # ... and the last one a tenth of a second later, on a machine with time to spare


class SinkStops:
    """The watchdog's stops among the messages of one controller's topic."""

    def __init__(
        self, sink: CommandSink, writer: CommandWriter, contract: Contract, told: WatchdogStops
    ) -> None:
        """writer: of the sink. told: what the robot's watchdogs have said so far."""
        self._sink, self._writer, self._contract, self._told = sink, writer, contract, told
        self._is_known = is_ever_sent_a_stop(contract, sink)
        self._reader: CommandReader | None = None
        if self._is_known and contract.kind_of(sink) == "position":  # held where the arm was
            try:
                self._reader = make_sink_reader(sink, contract)
            except WireError:  # a type of somebody's own that nobody reads: its stops are as any messages
                self._is_known = False
        self._found: dict[float, list[Any]] = {}  # stops by the time of what was told

    def take(self, time_s: float, message: Any) -> bool:
        """Return whether a message is one of the STOPS equal ones that a controller is sent each time."""
        for stop in self._told.finish() if self._is_known else ():
            found = self._found.setdefault(stop.t_s, [])
            is_near = stop.t_s - BEFORE_S <= time_s <= stop.t_s + AFTER_S
            if is_near and len(found) < STOPS and self._is_stop(message):
                said = exact(message)
                if not found or said == found[0]:
                    found.append(said)
                    return True
        return False

    def _is_stop(self, message: Any) -> bool:
        """Return whether the watchdog may have made a message, wherever and whenever the arm was measured."""
        held = dict.fromkeys(self._contract.actions.names, Measured(0.0))
        late_ns = 0
        if self._reader is not None:
            try:
                found = self._reader.read(message)
            except SensorError:
                return False
            held |= zip(self._sink.names, map(Measured, found), strict=True)
            late_ns = self._late_ns(message)
        stop = stop_controller(self._contract, self._sink, held)
        if stop.action is None:
            return False
        return bool(exact(self._writer.message(stop.action[None], Time(), late_ns)) == exact(message))

    def _late_ns(self, message: Any) -> int:
        """Return how much later than a period a trajectory's first point is due; 0 of any other message."""
        if not hasattr(message, "points"):
            return 0
        due = message.points[0].time_from_start
        due_ns = int(due.sec) * 1_000_000_000 + int(due.nanosec)
        return max(0, due_ns - round(self._contract.period_s * 1e9))
