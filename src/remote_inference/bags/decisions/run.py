# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One run of a robot's node: its engine is replayed, and compared with what else was recorded of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time

from remote_inference.bags.decisions.comparison import (
    KEPT,
    Change,
    Chunks,
    Difference,
    Pairs,
    Report,
    TickRecord,
    exact,
    request_key,
    request_of,
    show,
)
from remote_inference.bags.timeline.timeline import WatchdogStops
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.controller_stop import (
    STOPS,
    Measured,
    may_be_sent_a_stop,
    stop_controller,
)
from remote_inference.base.exchange import in_namespace
from remote_inference.base.wire.arrays import SensorError, WireError
from remote_inference.base.wire.commands import make_command_writer, make_sink_reader
from remote_inference.base.wire.commands.writer import CommandReader, CommandWriter
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.journal import Begin, Entry
from remote_inference.robot.nodes.telemetry import executed_message
from remote_inference.robot.replay import Called, Diverged, Outcome, Played, Replay
from remote_inference.robot.safety.effects import Report as StateReport, SendRequest

# Separates the command watchdog's stops on a controller's topic from other commands.
# A recording does not say who published a message. But the watchdog publishes when it has stopped the
# controllers, and what it sends is known but for where the arm was, and how long before.
BEFORE_S = 0.5  # its first stop is sent, and may be recorded, before it says so ...
AFTER_S = 1.0  # ... and the last one a tenth of a second later, on a machine with time to spare


class SinkStops:
    """The watchdog's stops among the messages of one controller's topic."""

    def __init__(
        self, sink: CommandSink, writer: CommandWriter, contract: Contract, stops: WatchdogStops
    ) -> None:
        """writer: of the sink. stops: those that the robot's watchdogs have published so far."""
        self._sink, self._writer, self._contract, self._stops = sink, writer, contract, stops
        self._is_known = may_be_sent_a_stop(contract, sink)
        self._reader: CommandReader | None = None
        if self._is_known and contract.kind_of(sink) == "position":  # held where the arm was
            try:
                self._reader = make_sink_reader(sink, contract)
            except WireError:  # a type of somebody's own that nobody reads: its stops are as any messages
                self._is_known = False
        self._found: dict[float, list[Any]] = {}  # messages by the time of a stop

    def match(self, time_s: float, message: Any) -> bool:
        """Return whether a message is one of the STOPS equal ones that a controller is sent each time."""
        for stop in self._stops.finish() if self._is_known else ():
            found = self._found.setdefault(stop.t_s, [])
            is_near = stop.t_s - BEFORE_S <= time_s <= stop.t_s + AFTER_S
            if is_near and len(found) < STOPS and self._is_stop(message):
                content = exact(message)
                if not found or content == found[0]:
                    found.append(content)
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


LOOK_AHEAD = 50  # recorded messages among which the one expected next is looked for


class Commands:
    """Finds each recorded message of a topic among the replayed ones, in order; some may be unrecorded.

    A recorded message that was not replayed is the command watchdog's stop, or another sender's where the
    journal covers its time: before the node began, and in its last moment, it may be the node's own.
    """

    def __init__(self, topic: str, names: tuple[str, ...], report: Report, stops: SinkStops) -> None:
        """names: of the elements of arrays."""
        self._topic = topic
        self._names = list(names)
        self._report = report
        self._stops = stops
        self._recorded: deque[tuple[float, Any]] = deque()
        self._replayed: deque[tuple[int, Any]] = deque()  # with the tick

    def record(self, time_s: float, message: Any) -> None:
        self._recorded.append((time_s, message))

    def replay(self, tick: int, message: Any) -> None:
        self._replayed.append((tick, message))

    def compare(self, covered_s: tuple[float, float], *, is_last: bool = False) -> None:
        """Compare what can be. covered_s: times that the journal covers. is_last: nothing more follows.

        A recorded message that is none of the replayed ones differs, once enough later ones were replayed.
        """
        while self._recorded and (self._replayed or is_last):
            time_s, message = self._recorded[0]
            if time_s > covered_s[1] and not is_last:  # nor may the watchdog's word of its stop be there yet
                break
            if self._stops.match(time_s, message):  # first: the node's own stops after it may be equal to it
                self._recorded.popleft()
                self._report.watchdog_stops += 1
                continue
            wanted = exact(message)
            ahead = next((n for n, (_, other) in enumerate(self._replayed) if exact(other) == wanted), None)
            if ahead is None and len(self._replayed) < KEPT // 100 and not is_last:
                break
            self._recorded.popleft()
            if ahead is not None:
                self._report.compared["commands"] += 1
                for _ in range(ahead + 1):
                    self._replayed.popleft()
                self._report.unrecorded["commands"] += ahead
            elif self._replayed and not self._is_expected_next():
                tick, other = self._replayed.popleft()
                what = f"{self._topic} of tick {tick}"
                self._report.compare("commands", what, time_s, message, other, names=self._names)
            elif covered_s[0] <= time_s <= covered_s[1]:
                foreign = "a message of another sender", show(message), "none"
                self._report.add(Difference(self._topic, time_s, *foreign))
            else:
                self._report.unreplayed["commands"] += 1
        while len(self._replayed) > KEPT and not self._recorded:
            self._replayed.popleft()
            self._report.unrecorded["commands"] += 1

    def finish(self, covered_s: tuple[float, float]) -> None:
        """Compare the rest; count the recorded messages that may be the node's, and were not replayed."""
        self.compare(covered_s, is_last=True)
        self._report.unrecorded["commands"] += len(self._replayed)

    def _is_expected_next(self) -> bool:
        """Return whether what must come next comes soon: the message before it is then one too many."""
        wanted = exact(self._replayed[0][1])
        return any(exact(message) == wanted for _, message in islice(self._recorded, LOOK_AHEAD))


LAST_MOMENT_S = 0.5  # of the journal, in which what it holds may be published later than a command


@dataclass(frozen=True)
class Recorded:
    """What is compared of a message of another topic than the journal's."""

    kind: str  # of the robot's topics: executed, observation, chunk or watchdog; of any other one its name
    time_s: float  # since the bag's begin
    item: Any
    key: Any = None  # number of a control tick or a request


class Run:
    """Replays one run, entry by entry."""

    def __init__(self, begin: Begin, report: Report) -> None:
        self._report = report
        self._names = names = begin.contract.actions.names
        self._replay = Replay(begin)
        self._ticks, self._requests = Pairs("ticks", names, report), Pairs("requests", names, report)
        self._chunks = Chunks(names, report)
        sinks = begin.contract.topic_commands if begin.config.command_mode == "live" else ()
        self._writers = [(sink, make_command_writer(sink, begin.contract)) for sink in sinks]
        self._watchdog = WatchdogStops()
        self._commands: dict[str, Commands] = {}
        for sink, writer in self._writers:
            stops = SinkStops(sink, writer, begin.contract, self._watchdog)
            commands = Commands(sink.topic, tuple(sink.names), report, stops)
            self._commands[in_namespace(report.namespace, sink.topic)] = commands
        self._time_s = 0.0
        self._covered_s: tuple[float, float] | None = None  # by the journal
        for counts in (report.compared, report.unrecorded, report.unreplayed):
            counts.update(dict.fromkeys(("ticks", "requests", "chunks", "commands"), 0))

    # -- what was recorded ---------------------------------------------------------------------------------

    def add(self, recorded: Recorded) -> None:
        kind, time_s, item = recorded.kind, recorded.time_s, recorded.item
        if kind == "executed":
            self._ticks.record(recorded.key, time_s, item)
        elif kind == "observation":
            self._requests.record(recorded.key, time_s, item)
        elif kind == "chunk":
            self._chunks.record(item)
        elif kind == "watchdog":
            self._watchdog.append(time_s, item)
        elif kind in self._commands:  # the topic is a controller's
            self._commands[kind].record(time_s, item)

    # -- what is replayed ----------------------------------------------------------------------------------

    def feed(self, entries: Iterable[Entry], time_s: float) -> None:
        """Replay the next entries, which were published at a time since the bag's begin."""
        self._time_s = time_s
        begin_s = self._covered_s[0] if self._covered_s else time_s
        self._covered_s = begin_s, time_s - LAST_MOMENT_S
        for entry in entries:
            self._report.entries += 1
            self._handle(self._replay.feed(entry))
            if entry.method == "take_chunk":
                self._chunks.replay(time_s, entry.arguments[0])
        for commands in self._commands.values():
            commands.compare(self._covered_s)

    def finish(self, time_s: float) -> None:
        """Replay what is left, and count what has no counterpart. time_s: of the end."""
        self._time_s = time_s
        self._handle(self._replay.finish())
        self._chunks.finish()
        waiting: list[Pairs | Commands] = [self._ticks, self._requests, *self._commands.values()]
        for one in waiting:
            one.finish(self._covered_s or (time_s, time_s))

    def _handle(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            match outcome:
                case Played():
                    self._handle_tick(outcome)
                case Called():
                    self._handle_effects(outcome)
                case Diverged(entry, field, recorded, replayed):
                    what = f"call {entry.method}"
                    self._report.add(Difference(what, self._time_s, field, recorded, replayed))

    def _handle_tick(self, played: Played) -> None:
        tick = played.tick
        message = executed_message(tick, played.index, 0, 0, self._names, queue_length=0)
        self._ticks.replay(played.index, TickRecord.of(message))
        if tick.horizon is None or tick.shadow:
            return
        for sink, writer in self._writers:
            if tick.reaches(writer.kind, sink.destination):
                topic = in_namespace(self._report.namespace, sink.topic)
                self._commands[topic].replay(played.index, writer.message(tick.horizon, Time(), tick.late_ns))

    def _handle_effects(self, called: Called) -> None:
        for effect in called.effects:
            if isinstance(effect, SendRequest):
                self._requests.replay(request_key(effect.request), request_of(effect.request))
            elif isinstance(effect, StateReport):
                self._report.states.append(effect.transition.after.name)


class ChangedRun:
    """Replays one run twice: as it was, and with other parameters; compares the two, tick by tick."""

    def __init__(self, begin: Begin, report: Report, config: RobotConfig, change: Change) -> None:
        self._names = begin.contract.actions.names
        self._report = report
        self._change = change
        self._then = Replay(begin)
        self._now = Replay(begin, config)
        self._ticks: dict[int, Played] = {}  # of then, until that of now is played
        self._played: dict[int, Played] = {}  # of now

    def feed(self, entries: Iterable[Entry], time_s: float) -> None:
        for entry in entries:
            self._report.entries += 1
            self._handle(self._then.feed(entry), self._now.feed(entry), time_s)

    def finish(self, time_s: float) -> None:
        self._handle(self._then.finish(), self._now.finish(), time_s)
        self._change.borrowed_chunks += self._now.borrowed_chunks

    def _handle(self, then: Iterable[Outcome], now: Iterable[Outcome], time_s: float) -> None:
        self._ticks |= {outcome.index: outcome for outcome in then if isinstance(outcome, Played)}
        for outcome in now:
            if isinstance(outcome, Played):
                self._played[outcome.index] = outcome
            elif isinstance(outcome, Called):
                transitions = (e.transition for e in outcome.effects if isinstance(e, StateReport))
                self._report.states += [transition.after.name for transition in transitions]
        for index in sorted(self._ticks.keys() & self._played.keys()):
            self._compare(self._ticks.pop(index), self._played.pop(index), time_s)

    def _compare(self, then: Played, now: Played, time_s: float) -> None:
        self._report.compared["ticks"] += 1
        before, after = then.tick.command, now.tick.command
        if before is not None and after is not None:
            self._change.compare(self._names, before, after)
        same = before is after or (before is not None and after is not None and np.array_equal(before, after))
        if not same or then.tick.source != now.tick.source:
            self._change.add(now.index, time_s)
