# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay --decisions`: streams a bag, and replays each run of the robot's node in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import yaml
from pydantic import ValidationError

from remote_inference import __version__
from remote_inference.core.contract.commands.interfaces import COMMAND_INTERFACES
from remote_inference.core.contract.commands.sink import CommandSink
from remote_inference.core.documents.document import DocumentError
from remote_inference.core.documents.problems import describe_problems
from remote_inference.core.documents.yaml_text import load_yaml
from remote_inference.core.exchange import in_namespace
from remote_inference.core.robot.config import RobotConfig
from remote_inference.core.robot.journal import Begin
from remote_inference.core.robot.replay import JournalError, is_begin
from remote_inference.recording.bags.bag import BagReader, open_bag
from remote_inference.recording.decisions.assignment import Assignment, Event, Recorded
from remote_inference.recording.decisions.comparison import RequestRecord, TickRecord
from remote_inference.recording.decisions.report import Change, Report
from remote_inference.recording.decisions.run import ChangedRun, Run
from remote_inference.recording.timeline.timeline_reader import find_namespace
from remote_inference.wire import WireError, chunk_from_message
from remote_inference.wire.decisions import DecisionDecoder

OWN = "remote_inference"
Tell = Callable[[float], None]  # takes the fraction of the bag that is done


def replay_decisions(
    path: Path, namespace: str | None, changes: dict[str, Any], tell: Tell = lambda _: None
) -> Report:
    """Replay the decisions in a bag, and compare them with what else it holds of the robot.

    namespace: of the robot; None: of the only one. changes: parameters with other values, by name; with any,
    the replay is compared with one without them. Raises BagError for a bag that cannot be read or holds no
    robot, DocumentError for a parameter that is none.
    """
    with open_bag(path) as bag:
        report = Report(str(path), find_namespace(bag, namespace))
        report.change = Change(changes) if changes else None
        _Reader(bag, report, changes).read(tell)
    return report


def parse_change(text: str) -> tuple[str, Any]:
    """Return name and value of `name=value`. Raises DocumentError unless it names a parameter."""
    name, equals, value = text.partition("=")
    if not equals or name not in RobotConfig.model_fields:
        raise DocumentError(f"--set: found {text!r}, expected a robot's parameter, as in max_action_age_s=1")
    try:
        parsed = load_yaml(value)
    except (yaml.YAMLError, ValueError):
        raise DocumentError(f"--set {name}: found {value!r}, expected a YAML value") from None
    return name, tuple(parsed) if isinstance(parsed, list) else parsed


class _AnyRun(Protocol):
    def feed(self, entries: Any, time_s: float) -> None: ...

    def finish(self, time_s: float) -> None: ...


class _Reader:
    """Hands a bag's messages to the run that they belong to."""

    def __init__(self, bag: BagReader, report: Report, changes: dict[str, Any]) -> None:
        self._bag = bag
        self._report = report
        self._changes = changes
        self._topics = {
            kind: f"{report.namespace}/{OWN}/{kind}"
            for kind in ("decisions", "executed", "observation", "chunk", "watchdog")
        }
        self._run: _AnyRun | None = None
        self._assignment = Assignment()
        self._decoder = DecisionDecoder()
        self._instance: int | None = None
        self._next = 0  # place of the entry that must come next

    def read(self, tell: Tell) -> None:
        bag, decisions = self._bag, self._topics["decisions"]
        if decisions not in bag.topics:
            self._report.problems.append(
                f"{decisions} is not in the bag: recorded without it, or by a version that did not write it"
            )
            return
        duration_ns = max(1, bag.end_ns - bag.start_ns)
        time_s = 0.0
        for topic, stamp_ns, message in bag.messages(self._wanted()):
            time_s = (stamp_ns - bag.start_ns) * 1e-9
            tell((stamp_ns - bag.start_ns) / duration_ns)
            if topic == decisions:
                with bag.expecting(topic):
                    instance, first, count = int(message.instance), int(message.first), int(message.count)
                    data = bytes(message.data)
                self._take_decisions(time_s, instance, first, count, data)
            else:
                with bag.expecting(topic):
                    recorded = self._read_recorded(topic, time_s, message)
                if recorded is not None:
                    self._hand_on(recorded)
        self._go_on(time_s)
        self._end_run(time_s)
        if not self._report.runs and not self._report.problems:
            self._report.problems.append(f"{decisions} holds nothing")

    def _wanted(self) -> list[str]:
        """Return the topics to read: with other parameters nothing but the journal."""
        if self._changes:
            return [self._topics["decisions"]]
        topics = self._bag.topics
        own = [topic for topic in self._topics.values() if topic in topics]
        kinds = COMMAND_INTERFACES.every_name
        fields = [sink.topic for sink in self._first_commands() if sink.fields]
        commands = {name for name, topic in topics.items() if topic.msgtype in kinds}
        commands |= {in_namespace(self._report.namespace, topic) for topic in fields} & topics.keys()
        return [*own, *sorted(commands - set(own))]

    def _first_commands(self) -> Sequence[CommandSink]:
        """Return the commands by topic of the contract with which the bag's first journal begins."""
        for topic, _, message in self._bag.messages([self._topics["decisions"]]):
            with suppress(WireError), self._bag.expecting(topic):
                for entry in DecisionDecoder().decode(bytes(message.data)):
                    return entry.arguments[0].contract.topic_commands if is_begin(entry) else ()
        return ()

    # -- the journal ---------------------------------------------------------------------------------------

    def _take_decisions(self, time_s: float, instance: int, first: int, count: int, data: bytes) -> None:
        if instance != self._instance:
            self._end_run(time_s)
            self._instance, self._next, self._decoder = instance, 0, DecisionDecoder()
            if first:
                self._give_up(
                    f"the journal begins with entry {first} at {time_s:.1f} s: the recording began after "
                    "the node, or its first split is gone; nothing of this run can be replayed"
                )
        if first < self._next or self._next < 0:  # a message that came twice, or of a run given up
            return
        self._go_on(time_s)
        if first > self._next:
            gap = f"entries {self._next} to {first - 1} are missing at {time_s:.1f} s"
            self._give_up(f"{gap}: what follows in this run cannot be replayed")
            return
        try:
            entries = list(self._decoder.decode(data))
            if len(entries) != count or not entries:
                raise WireError(f"found {len(entries)} entries, expected {count or 'some'}")
            self._next = first + len(entries)
            if first == 0:
                self._begin_run(entries.pop(0))
            if self._run is not None:
                self._run.feed(entries, time_s)
        except (WireError, JournalError, DocumentError) as error:
            self._give_up(f"the journal cannot be read at {time_s:.1f} s: {error}")

    def _begin_run(self, entry: Any) -> None:
        if not is_begin(entry):
            raise JournalError("its first entry is no begin")
        begin: Begin = entry.arguments[0]
        self._report.runs += 1
        self._report.versions.append(begin.version)
        if begin.version != __version__:
            self._report.notes.append(
                f"recorded by version {begin.version}, replayed by {__version__}: a difference may be the "
                "code's"
            )
        if self._report.change is None:
            self._run = Run(begin, self._report)
        else:
            config = _changed(begin.config, self._changes)
            self._run = ChangedRun(begin, self._report, config, self._report.change)
        for recorded in self._assignment.note(Event.BEGIN):
            self._hand_on(recorded)

    def _go_on(self, time_s: float) -> None:
        """Let the run take what seemed to be of the next one, of which no journal has come."""
        if not self._assignment.is_ahead:
            return
        aliens = self._assignment.note(Event.MORE)
        self._report.problems.append(
            f"{len(aliens)} messages until {time_s:.1f} s are numbered anew, and no other run of the "
            "node is there: another sender, or a node whose journal was not recorded"
        )
        for recorded in aliens:
            getattr(self._run, recorded.method)(*recorded.arguments)

    def _give_up(self, problem: str) -> None:
        self._report.problems.append(problem)
        self._next = -1
        self._assignment.note(Event.UNREADABLE)
        self._end_run(0.0)

    def _end_run(self, time_s: float) -> None:
        self._assignment.note(Event.END)
        run, self._run = self._run, None
        if run is not None:
            run.finish(time_s)

    # -- the other topics ----------------------------------------------------------------------------------

    def _read_recorded(self, topic: str, time_s: float, message: Any) -> Recorded | None:
        """Return a message without its images; None for one that says nothing to the run."""
        if topic == self._topics["executed"]:
            return Recorded("take_tick", (time_s, int(message.tick), TickRecord.of_message(message)))
        if topic == self._topics["observation"]:
            return Recorded("take_request", (time_s, RequestRecord.of(message)))
        if topic == self._topics["chunk"]:
            try:
                return Recorded("take_chunk", (time_s, chunk_from_message(message)))
            except WireError:  # it was none for the robot, either
                return None
        if topic == self._topics["watchdog"]:
            return Recorded("take_watchdog", (time_s, message))
        return Recorded("take_command", (time_s, topic, message))

    def _hand_on(self, recorded: Recorded) -> None:
        if self._assignment.take(recorded):
            getattr(self._run, recorded.method)(*recorded.arguments)


def _changed(config: RobotConfig, changes: dict[str, Any]) -> RobotConfig:
    try:
        return RobotConfig.model_validate({**config.model_dump(), **changes})
    except ValidationError as error:
        raise DocumentError(describe_problems("--set", RobotConfig, error.errors())) from None
