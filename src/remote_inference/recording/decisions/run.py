# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One run of a robot's node: its engine is replayed, and compared with what else was recorded of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time

from remote_inference.core.exchange import Chunk, in_namespace
from remote_inference.core.robot.config import RobotConfig
from remote_inference.core.robot.journal import Begin, Entry
from remote_inference.core.robot.replay import Called, Diverged, Outcome, Played, Replay
from remote_inference.core.robot.safety.effects import Report as StateReport
from remote_inference.core.robot.safety.effects import SendRequest
from remote_inference.recording.decisions.commands import Commands
from remote_inference.recording.decisions.comparison import (
    Chunks,
    Pairs,
    RequestRecord,
    TickRecord,
    request_key,
)
from remote_inference.recording.decisions.report import Change, Difference, Report
from remote_inference.recording.decisions.watchdog_stops import SinkStops
from remote_inference.recording.timeline.columns import WatchdogStops
from remote_inference.wire import make_command_writer

LAST_MOMENT_S = 0.5  # of the journal, in which what it holds may be published later than a command


class _Recorded:
    """What the other topics hold of a run, by kind."""

    def __init__(self, begin: Begin, report: Report) -> None:
        names, add = begin.contract.actions.names, report.add
        self.ticks = Pairs("tick", names, add)
        self.requests = Pairs("request", names, add)
        self.chunks = Chunks(names, add)
        sinks = begin.contract.topic_commands if begin.config.command_mode == "live" else ()
        self.writers = [(sink, make_command_writer(sink, begin.contract)) for sink in sinks]
        self.watchdog = WatchdogStops()
        self.commands: dict[str, Commands] = {}
        for sink, writer in self.writers:
            stops = SinkStops(sink, writer, begin.contract, self.watchdog)
            commands = Commands(sink.topic, tuple(sink.names), add, stops.take)
            self.commands[in_namespace(report.namespace, sink.topic)] = commands


class Run:
    """Replays one run, entry by entry."""

    def __init__(self, begin: Begin, report: Report) -> None:
        self._report = report
        self._names = begin.contract.actions.names
        self._replay = Replay(begin)
        self._recorded = _Recorded(begin, report)
        self._time_s = 0.0
        self._covered_s: tuple[float, float] | None = None  # by the journal

    # -- what was recorded ---------------------------------------------------------------------------------

    def take_tick(self, time_s: float, index: int, tick: TickRecord) -> None:
        """Take the content of an ExecutedAction. index: the control tick's."""
        self._recorded.ticks.record(index, time_s, tick)

    def take_request(self, time_s: float, request: RequestRecord) -> None:
        """Take the content of an Observation, without what the sensors saw."""
        self._recorded.requests.record(request_key(request), time_s, request)

    def take_chunk(self, _: float, chunk: Chunk) -> None:
        """Take a chunk of the topic."""
        self._recorded.chunks.record(chunk)

    def take_command(self, time_s: float, topic: str, message: Any) -> None:
        """Take a message of a topic that may be a controller's."""
        if topic in self._recorded.commands:
            self._recorded.commands[topic].record(time_s, message)

    def take_watchdog(self, time_s: float, message: Any) -> None:
        """Take a WatchdogState of the robot."""
        self._recorded.watchdog.take(time_s, message)

    # -- what is replayed ----------------------------------------------------------------------------------

    def feed(self, entries: Iterable[Entry], time_s: float) -> None:
        """Replay the next entries, which were published at a time since the bag's begin."""
        self._time_s = time_s
        begin_s = self._covered_s[0] if self._covered_s else time_s
        self._covered_s = begin_s, time_s - LAST_MOMENT_S
        for entry in entries:
            self._report.entries += 1
            self._take(self._replay.feed(entry))
            if entry.method == "take_chunk":
                self._recorded.chunks.replay(time_s, entry.arguments[0])
        for commands in self._recorded.commands.values():
            commands.compare(self._covered_s)

    def finish(self, time_s: float) -> None:
        """Replay what is left, and count what has no counterpart. time_s: of the end."""
        self._time_s = time_s
        self._take(self._replay.finish())
        report, recorded = self._report, self._recorded
        recorded.chunks.finish()
        commands = list(recorded.commands.values())
        covered_s = self._covered_s or (time_s, time_s)
        left = [
            recorded.ticks.finish(covered_s),
            recorded.requests.finish(covered_s),
            0,
            sum(one.finish(covered_s) for one in commands),
        ]
        report.watchdog_stops += sum(one.watchdog_stops for one in commands)
        kinds: tuple[list[Any], ...] = ([recorded.ticks], [recorded.requests], [recorded.chunks], commands)
        names = ("ticks", "requests", "chunks", "commands")
        for name, comparisons, unreplayed in zip(names, kinds, left, strict=True):
            report.compared[name] += sum(one.compared for one in comparisons)
            report.unrecorded[name] += sum(one.unrecorded for one in comparisons)
            report.unreplayed[name] += unreplayed

    def _take(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            match outcome:
                case Played():
                    self._take_tick(outcome)
                case Called():
                    self._take_effects(outcome)
                case Diverged(entry, field, recorded, replayed):
                    what = f"call {entry.method}"
                    self._report.add(Difference(what, self._time_s, field, recorded, replayed))

    def _take_tick(self, played: Played) -> None:
        self._recorded.ticks.replay(played.index, TickRecord.of_replay(played.tick, self._names))
        tick = played.tick
        if tick.horizon is None or tick.shadow:
            return
        for sink, writer in self._recorded.writers:
            if tick.reaches(writer.kind, sink.destination):
                topic = in_namespace(self._report.namespace, sink.topic)
                self._recorded.commands[topic].replay(
                    played.index, writer.message(tick.horizon, Time(), tick.late_ns)
                )

    def _take_effects(self, called: Called) -> None:
        for effect in called.effects:
            if isinstance(effect, SendRequest):
                self._recorded.requests.replay(request_key(effect.request), RequestRecord.of(effect.request))
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
        """Replay the next entries, which were published at a time since the bag's begin."""
        for entry in entries:
            self._report.entries += 1
            self._take(self._then.feed(entry), self._now.feed(entry), time_s)

    def finish(self, time_s: float) -> None:
        """Replay what is left."""
        self._take(self._then.finish(), self._now.finish(), time_s)
        self._change.borrowed_chunks += self._now.borrowed_chunks

    def _take(self, then: Iterable[Outcome], now: Iterable[Outcome], time_s: float) -> None:
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
