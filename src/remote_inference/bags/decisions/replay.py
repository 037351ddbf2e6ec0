# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay --decisions`: streams a bag, and replays each run of the robot's node in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from remote_inference import __version__
from remote_inference.bags.decisions.comparison import Change, Report, TickRecord, request_key, request_of
from remote_inference.bags.decisions.run import ChangedRun, Recorded, Run
from remote_inference.bags.storage.bag import OnProgress, no_progress
from remote_inference.bags.timeline.messages import TickNumbers
from remote_inference.bags.timeline.robot_bag import RobotBag, open_robot
from remote_inference.base.contract.commands.sink import COMMAND_INTERFACES, CommandSink
from remote_inference.base.documents.document import DocumentError
from remote_inference.base.documents.problems import describe_problems
from remote_inference.base.documents.yaml_text import load_yaml
from remote_inference.base.exchange import Request, in_namespace
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.chunk import chunk_from_message
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.decisions import DecisionDecoder
from remote_inference.robot.journal import Begin
from remote_inference.robot.replay import JournalError, is_begin

# Which run of the robot's node sent a recorded message: the journal and other topics are recorded apart.
# A message of a run may stand in the bag before the journal's begin, and one of the run before behind it.
EARLY = 20_000  # messages that may come before the journal's begin
PARAMETER_SINCE_AUTO = "max_observation_skew_s"  # came when `merge_mode: auto` changed its meaning
OLD_AUTO = (
    "recorded when merge_mode auto appended chunks that continue no prefix and are not relative; now they "
    "replace the queue: a difference may be that, not the recording's"
)


class Stage(Enum):
    """What is known of the run of the next message."""

    BETWEEN = auto()  # it is of the next run
    GIVEN_UP = auto()  # it may still be of a run whose journal cannot be read
    WITHIN = auto()  # it is of the run that is replayed
    AHEAD = auto()  # numbers restarted within a run: it is of the next one, if one comes


class Event(Enum):
    """What the journal, or a message's number, shows."""

    BEGIN = auto()  # of a run's journal
    MORE = auto()  # of the journal that was read before
    UNREADABLE = auto()  # is what follows of the journal
    END = auto()  # of a run: the next journal is of another
    ANEW = auto()  # is what a message's number says


NEXT = {
    (Stage.BETWEEN, Event.BEGIN): Stage.WITHIN,
    (Stage.BETWEEN, Event.UNREADABLE): Stage.GIVEN_UP,
    (Stage.GIVEN_UP, Event.BEGIN): Stage.WITHIN,
    (Stage.GIVEN_UP, Event.ANEW): Stage.BETWEEN,
    (Stage.WITHIN, Event.UNREADABLE): Stage.GIVEN_UP,
    (Stage.WITHIN, Event.END): Stage.BETWEEN,
    (Stage.WITHIN, Event.ANEW): Stage.AHEAD,
    (Stage.AHEAD, Event.MORE): Stage.WITHIN,
    (Stage.AHEAD, Event.UNREADABLE): Stage.GIVEN_UP,
    (Stage.AHEAD, Event.END): Stage.BETWEEN,
}  # what is not here changes nothing


class RunAssigner:
    """Keeps messages until it is known which run of the node sent them."""

    def __init__(self) -> None:
        self._stage = Stage.BETWEEN
        self._waiting: deque[Recorded] = deque(maxlen=EARLY)
        self._ticks = TickNumbers()
        self._last_request: Request | None = None

    def note(self, event: Event) -> tuple[Recorded, ...]:
        """Handle an event of the journal; return the messages that have waited for it, for `take` again."""
        before = self._move(event)
        if self._stage is not Stage.WITHIN or before is Stage.WITHIN:
            return ()
        waited = () if before is Stage.GIVEN_UP else tuple(self._waiting)
        self._waiting.clear()
        self._ticks, self._last_request = TickNumbers(), None
        return waited

    def take(self, recorded: Recorded) -> bool:
        """Return whether a message is of the run that is replayed; keep one of the next."""
        if self._detect_restart(recorded) and self._move(Event.ANEW) is not self._stage:
            self._waiting.clear()
        if self._stage is Stage.WITHIN:
            return True
        self._waiting.append(recorded)
        return False

    def _move(self, event: Event) -> Stage:
        """Go to the next stage; return the one before."""
        before, self._stage = self._stage, NEXT.get((self._stage, event), self._stage)
        return before

    def _detect_restart(self, recorded: Recorded) -> bool:
        """Return whether a message's number says that another run of the node has sent it."""
        if recorded.kind == "executed":
            return self._ticks.detect_restart(recorded.key, recorded.time_s)
        if recorded.kind == "observation":
            request: Request = recorded.item
            last, self._last_request = self._last_request, request
            is_of_another = last is not None and request.session_id != last.session_id
            return is_of_another and request_key(request) <= request_key(last)
        return False


def replay_decisions(
    path: Path, namespace: str | None, changes: dict[str, Any], on_progress: OnProgress = no_progress
) -> Report:
    """Replay the decisions in a bag, and compare them with what else it holds of the robot.

    namespace: of the robot; None: of the only one. changes: parameters with other values, by name; with any,
    the replay is compared with one without them. Raises BagError for a bag that cannot be read or holds no
    robot, DocumentError for a parameter that is none.
    """
    with open_robot(path, namespace) as robot:
        report = Report(str(path), robot.namespace, change=Change(changes) if changes else None)
        _Reader(robot, report).read(on_progress)
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


class _Reader:
    """Hands a bag's messages to the run that they belong to."""

    def __init__(self, robot: RobotBag, report: Report) -> None:
        self._robot, self._bag = robot, robot.bag
        self._report = report
        self._decisions = robot.topic("decisions")
        self._kinds = {robot.topic(kind): kind for kind in ("executed", "observation", "chunk", "watchdog")}
        self._run: Run | ChangedRun | None = None
        self._assignment = RunAssigner()
        self._decoder = DecisionDecoder()
        self._instance: int | None = None
        self._next = 0  # place of the entry that must come next

    def read(self, on_progress: OnProgress) -> None:
        bag, decisions = self._bag, self._decisions
        if decisions not in bag.topics:
            self._report.problems.append(f"{decisions} is not in the bag: it was recorded without it")
            return
        time_s = 0.0
        for topic, stamp_ns, message in bag.messages(self._wanted(), on_progress=on_progress):
            time_s = bag.seconds(stamp_ns)
            if topic == decisions:
                self._add_decisions(time_s, message)
            elif recorded := self._read_recorded(topic, time_s, message):
                self._hand_on(recorded)
        self._keep_waiting_messages(time_s)
        self._end_run(time_s)
        if not self._report.runs and not self._report.problems:
            self._report.problems.append(f"{decisions} holds nothing")

    def _wanted(self) -> list[str]:
        """Return the topics to read: with other parameters nothing but the journal."""
        if self._report.change is not None:
            return [self._decisions]
        topics = self._bag.topics
        own = self._robot.topics("decisions", *self._kinds.values())
        kinds = COMMAND_INTERFACES.every_name
        fields = [sink.topic for sink in self._first_commands() if sink.fields]
        commands = {name for name, topic in topics.items() if topic.msgtype in kinds}
        commands |= {in_namespace(self._report.namespace, topic) for topic in fields} & topics.keys()
        return [*own, *sorted(commands - set(own))]

    def _first_commands(self) -> Sequence[CommandSink]:
        """Return the commands by topic of the contract with which the bag's first journal begins."""
        for _, _, message in self._bag.messages([self._decisions]):
            with suppress(WireError):
                for entry in DecisionDecoder().decode(bytes(message.data)):
                    return entry.arguments[0].contract.topic_commands if is_begin(entry) else ()
        return ()

    # -- the journal ---------------------------------------------------------------------------------------

    def _add_decisions(self, time_s: float, message: Any) -> None:
        instance, first, count = int(message.instance), int(message.first), int(message.count)
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
        self._keep_waiting_messages(time_s)
        if first > self._next:
            gap = f"entries {self._next} to {first - 1} are missing at {time_s:.1f} s"
            self._give_up(f"{gap}: what follows in this run cannot be replayed")
            return
        try:
            entries = list(self._decoder.decode(bytes(message.data)))
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
            versions = f"recorded by version {begin.version}, replayed by {__version__}"
            self._report.notes.append(f"{versions}: a difference may be the code's")
        if begin.config.merge_mode == "auto" and PARAMETER_SINCE_AUTO not in begin.config.model_fields_set:
            self._report.notes.append(OLD_AUTO)
        if self._report.change is None:
            self._run = Run(begin, self._report)
        else:
            config = _changed(begin.config, self._report.change.parameters)
            self._run = ChangedRun(begin, self._report, config, self._report.change)
        for recorded in self._assignment.note(Event.BEGIN):
            self._hand_on(recorded)

    def _keep_waiting_messages(self, time_s: float) -> None:
        """Give the run the messages that seemed to be of the next one, of which no journal has come."""
        if not (aliens := self._assignment.note(Event.MORE)):
            return
        self._report.problems.append(
            f"{len(aliens)} messages until {time_s:.1f} s are numbered from zero again, and no other run of "
            "the node is there: another sender, or a node whose journal was not recorded"
        )
        for recorded in aliens:
            self._add(recorded)

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
        """Return a message without its images; None for a chunk that is invalid."""
        kind = self._kinds.get(topic, topic)
        if kind == "executed":
            return Recorded(kind, time_s, TickRecord.of(message), int(message.tick))
        if kind == "observation":
            request = request_of(message)
            return Recorded(kind, time_s, request, request_key(request))
        if kind == "chunk":
            try:
                return Recorded(kind, time_s, chunk_from_message(message))
            except WireError:  # it was none for the robot, either
                return None
        return Recorded(kind, time_s, message)

    def _hand_on(self, recorded: Recorded) -> None:
        if self._assignment.take(recorded):
            self._add(recorded)

    def _add(self, recorded: Recorded) -> None:
        assert isinstance(self._run, Run), "with other parameters nothing but the journal is read"
        self._run.add(recorded)


def _changed(config: RobotConfig, changes: dict[str, Any]) -> RobotConfig:
    try:
        return RobotConfig.model_validate({**config.model_dump(), **changes})
    except ValidationError as error:
        raise DocumentError(describe_problems("--set", RobotConfig, error.errors())) from None
