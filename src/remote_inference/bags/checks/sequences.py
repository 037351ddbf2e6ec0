# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks of order, of missing messages, and of ids: an executed action names a chunk, a chunk a request."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from remote_inference import __version__
from remote_inference.bags.checks.check import Check, Verification, count, show_time
from remote_inference.bags.storage import bag_records as records
from remote_inference.bags.storage.bag_records import TOPIC_TYPES, BagError, count_missing, read_json
from remote_inference.bags.storage.mcap_records import Damage, ScannedChannel
from remote_inference.bags.storage.mcap_scan import MetadataRecord, ScannedMessage
from remote_inference.bags.storage.message_decoder import MessageDecoder
from remote_inference.bags.timeline.messages import RequestKey, remember, request_key
from remote_inference.base.paths import PACKAGE
from remote_inference.robot.command import CommandSource


class OrderCheck(Check):
    """The messages of a topic lie in the order of their reception."""

    name = "order"

    def __init__(self, result: Verification) -> None:
        super().__init__(result)
        self._last_ns: dict[str, int] = {}
        self._back: list[tuple[int, int, str]] = []  # (step [ns], at [ns], topic) of the largest step
        self._steps_back = 0

    def on_message(self, message: ScannedMessage) -> None:
        topic, now_ns = message.channel.topic, message.log_time_ns
        step_ns = self._last_ns.get(topic, now_ns) - now_ns
        if step_ns > 0:
            self._steps_back += 1
            self._back = [max([*self._back, (step_ns, now_ns, topic)])]
        self._last_ns[topic] = now_ns

    def on_record(self, record: MetadataRecord) -> None:
        if record.name == records.CLOCK:
            try:
                at, jump_s, ahead_s = (float(record.values[key]) for key in ("at_ns", "jump_s", "ahead_s"))
                when = show_time(int(at))
            except (KeyError, ValueError, OverflowError, OSError):
                found = f"found {record.values}, expected at_ns, jump_s and ahead_s"
                self.problem(f"record {records.CLOCK}: {found}")
                return
            jump = f"the wall clock jumped by {jump_s:+.3f} s at {when}; the bag's times go on steadily"
            self.note(f"{jump}, and the stamps in messages are {ahead_s:+.3f} s ahead from there on")

    def end_bag(self) -> None:
        for step_ns, at_ns, topic in self._back:
            self.problem(
                f"times of reception go back {count(self._steps_back, 'time')}, at most by "
                f"{step_ns * 1e-9:.3f} s ({topic} at {show_time(at_ns)}): the clock was set, "
                "or the messages were moved; readers sort them by these times"
            )


class GapCheck(Check):
    """A gap that the recorder counted is a loss; one that it did not count is a problem."""

    name = "gaps"

    def __init__(self, result: Verification) -> None:
        super().__init__(result)
        self._last: dict[str, int] = {}
        self._missing: Counter[str] = Counter()
        self._first_ns: dict[str, int] = {}  # of the first gap, by topic
        self._losses: Mapping[str, Mapping[str, int]] = {"queue": {}, "before": {}}
        self._uncounted: set[str] = set()
        self._is_damaged = False

    def on_message(self, message: ScannedMessage) -> None:
        topic = message.channel.topic
        if missing := count_missing(self._last.get(topic, 0), message.sequence):
            self._missing[topic] += missing
            self._first_ns.setdefault(topic, message.log_time_ns)
        self._last[topic] = message.sequence

    def on_damage(self, _: Damage) -> None:
        self._is_damaged = True

    def on_record(self, record: MetadataRecord) -> None:
        if record.name == records.REPAIR:
            self._is_damaged = True
        elif record.name == records.LOSSES:
            try:
                losses = {key: read_json(records.LOSSES, record.values, key) for key in ("queue", "before")}
                self._losses = {
                    key: {str(topic): int(lost) for topic, lost in dict(found).items()}
                    for key, found in losses.items()
                }
                self._uncounted |= set(map(str, read_json(records.LOSSES, record.values, "uncounted")))
            except BagError as error:
                self.problem(str(error))
            except (TypeError, ValueError, OverflowError):
                self.problem(f"record {records.LOSSES}: found {record.values}, expected counts by topic")

    def end_bag(self) -> None:
        for topic, missing in self._missing.items():
            if topic not in self._uncounted:
                self._check_topic(topic, missing)
        for topic, lost in {**self._losses["queue"], **self._losses["before"]}.items():
            if lost and topic not in self._missing and topic not in self._uncounted:
                lost_then = count(self._counted(topic), "message")
                self.missing(f"{topic}: the recorder lost {lost_then} at its end")
        if self._uncounted:
            topics = ", ".join(sorted(self._uncounted))
            self.note(f"several publishers, whose losses nobody can count: {topics}")
        if self._last and not any(self._last.values()):
            self.note("the messages have no numbers: what was lost while recording does not show")

    def _check_topic(self, topic: str, missing: int) -> None:
        since = f"the first at {show_time(self._first_ns[topic])}"
        found, counted = f"{topic}: {count(missing, 'message')}", self._counted(topic)
        if self.result.contract is None:
            self.missing(f"{found} lost while recording, {since}")
        elif missing <= counted or self._is_damaged or not self.result.is_finished:
            queue, before = (self._losses[key].get(topic, 0) for key in ("queue", "before"))
            causes = f"{queue} in its queue, {before} before they reached it"
            self.missing(f"{found} missing, {since}; the recorder lost {causes}")
        else:
            self.problem(f"{found} missing, {since}; the recorder says that it lost {counted}")

    def _counted(self, topic: str) -> int:
        return sum(self._losses[key].get(topic, 0) for key in ("queue", "before"))


KEPT_REQUESTS = 1000  # of a robot: a chunk or a row that names an older one is not followed
# Type by the end of a topic's name.
OWN = {f"/{PACKAGE}/{kind}": TOPIC_TYPES[kind] for kind in ("observation", "chunk", "executed")}


@dataclass
class _Robot:
    """What is known of one robot so far."""

    requests: OrderedDict[RequestKey, None] = field(default_factory=OrderedDict)
    chunks: OrderedDict[RequestKey, int] = field(default_factory=OrderedDict)  # horizon
    oldest: RequestKey | None = None  # first recorded request: what came before is of before the bag
    seq_id: int | None = None
    tick: int | None = None
    restarts: int = 0
    ticks_missing: int = 0
    kinds: set[str] = field(default_factory=set)  # of OWN, seen
    wrong: Counter[str] = field(default_factory=Counter)  # findings by kind
    first_ns: dict[str, int] = field(default_factory=dict)


class IdCheck(Check):
    """Every executed action's chunk and every chunk's request is in the bag, and numbers rise."""

    name = "ids"

    def __init__(self, result: Verification) -> None:
        super().__init__(result)
        self._decoder = MessageDecoder()
        self._types: dict[tuple[str, bytes], str] = {}  # how it differs from this release's, by definition
        self._undecoded: Counter[str] = Counter()
        self._robots: dict[str, _Robot] = {}
        self._version = ""
        self._now_ns = 0
        checks: tuple[Callable[[_Robot, Any], None], ...]
        checks = self._check_request, self._check_chunk, self._check_executed
        self._checks = dict(zip(OWN, checks, strict=True))

    def on_message(self, message: ScannedMessage) -> None:
        channel = message.channel
        ending = next((ending for ending in OWN if channel.topic.endswith(ending)), "")
        if not ending or channel.msgtype != OWN[ending]:
            return
        robot = self._robots.setdefault(channel.topic.removesuffix(ending), _Robot())
        robot.kinds.add(ending)
        self._now_ns = message.log_time_ns
        try:
            difference = self._declare(channel)
            decoded = None if difference else self._decoder.decode(channel.msgtype, message.data)
        except Exception as error:  # rosbags raises many kinds for what does not fit a definition
            self._undecoded[channel.topic] += 1
            if self._undecoded[channel.topic] == 1:
                reason = str(error) or type(error).__name__
                self.problem(f"{channel.topic}: a message does not fit its definition: {reason}")
            return
        if difference:
            robot.wrong[f"messages of {channel.topic} cannot be followed: {difference}"] += 1
        else:
            self._checks[ending](robot, decoded)

    def _declare(self, channel: ScannedChannel) -> str:
        """Declare a channel's type; return how it differs from this release's."""
        key = channel.msgtype, channel.definition
        if key not in self._types:
            self._decoder.add_type(
                channel.msgtype, channel.definition.decode(), is_idl=channel.encoding == "ros2idl"
            )
            self._types[key] = self._decoder.find_difference(channel.msgtype)
        return self._types[key]

    def on_record(self, record: MetadataRecord) -> None:
        if record.name == records.RUN:
            self._version = self._version or record.values.get("package_version", "")

    def _check_request(self, robot: _Robot, request: Any) -> None:
        key = request_key(request)
        robot.oldest = robot.oldest or key
        if robot.seq_id is not None and key[1] <= robot.seq_id and robot.seq_id != key[1] - 1:
            if key[1] == robot.seq_id:
                self._count(robot, "requests with the number of the one before")
            else:
                robot.restarts += 1
        robot.seq_id = key[1]
        remember(robot.requests, key, None, KEPT_REQUESTS)

    def _check_chunk(self, robot: _Robot, chunk: Any) -> None:
        key = request_key(chunk)
        is_older = robot.oldest is None or key[1] < robot.oldest[1]
        if key not in robot.requests and not is_older:
            self._count(robot, "chunks whose request is not in the bag")
        remember(robot.chunks, key, int(chunk.horizon), KEPT_REQUESTS)

    def _check_executed(self, robot: _Robot, executed: Any) -> None:
        tick = int(executed.tick)
        if robot.tick is not None:
            if tick <= robot.tick:
                robot.restarts += 1
            else:
                robot.ticks_missing += tick - robot.tick - 1
        robot.tick = tick
        key = request_key(executed)
        if executed.source != CommandSource.CHUNK or robot.oldest is None or key[1] < robot.oldest[1]:
            return
        if key not in robot.chunks:
            self._count(robot, "executed actions whose chunk is not in the bag")
        elif executed.step_index >= robot.chunks[key]:
            self._count(robot, "executed actions beyond the end of their chunk")

    def _count(self, robot: _Robot, kind: str) -> None:
        robot.wrong[kind] += 1
        robot.first_ns.setdefault(kind, self._now_ns)

    def end_bag(self) -> None:
        if self._version not in {"", __version__}:
            why = "a bag whose messages differ is refused by other verbs"
            self.note(f"recorded with version {self._version} of the package, this is {__version__}: {why}")
        names = [name or "/" for name in self._robots]
        if not names:
            self.note("no robot of this package in the bag: no requests, chunks or commands to follow")
        if len(names) > 1:
            self.note(f"{len(names)} robots: {', '.join(names)}; other verbs take one of them by --namespace")
        for name, robot in self._robots.items():
            self._check_robot(name or "/", robot)

    def _check_robot(self, name: str, robot: _Robot) -> None:
        if absent := [ending.rpartition("/")[2] for ending in OWN if ending not in robot.kinds]:
            self.note(f"{name}: no messages of {', '.join(absent)}: what names them cannot be followed")
        if robot.restarts:
            self.note(f"{name}: the robot's node was restarted {count(robot.restarts, 'time')}")
        if robot.ticks_missing:
            self.missing(f"{name}: no executed action of {count(robot.ticks_missing, 'control tick')}")
        for kind, number in robot.wrong.items():
            first = f", the first at {show_time(robot.first_ns[kind])}" if kind in robot.first_ns else ""
            self.missing(f"{name}: {number} {kind}{first}")
