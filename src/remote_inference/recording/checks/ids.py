# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Follows the ids: each executed row names a chunk, and each chunk a request."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from remote_inference import __version__
from remote_inference.core.robot.command import CommandSource
from remote_inference.recording.bags.bag_records import RUN
from remote_inference.recording.bags.mcap_scan import MetadataRecord, ScannedMessage
from remote_inference.recording.bags.message_decoder import MessageDecoder
from remote_inference.recording.checks.check import BagFacts, Check, Finding, count, show_time
from remote_inference.recording.timeline.joint_records import EXECUTED_SUFFIX

KEPT_REQUESTS = 1000  # of a robot: a chunk or a row that names an older one is not followed
OWN = {
    "/remote_inference/observation": "remote_inference/msg/Observation",
    "/remote_inference/chunk": "remote_inference/msg/ActionChunk",
    EXECUTED_SUFFIX: "remote_inference/msg/ExecutedAction",
}
Key = tuple[str, int]  # session_id and seq_id


@dataclass
class _Robot:
    """What is known of one robot so far."""

    requests: OrderedDict[Key, None] = field(default_factory=OrderedDict)
    chunks: OrderedDict[Key, int] = field(default_factory=OrderedDict)  # horizon
    oldest: Key | None = None  # first recorded request: what came before belongs to the time before the bag
    seq_id: int | None = None
    tick: int | None = None
    restarts: int = 0
    ticks_missing: int = 0
    kinds: set[str] = field(default_factory=set)  # of OWN, seen
    wrong: Counter[str] = field(default_factory=Counter)  # findings by kind
    first_ns: dict[str, int] = field(default_factory=dict)


class IdCheck(Check):
    """Every executed row's chunk and every chunk's request is in the bag, and numbers rise."""

    name = "ids"

    def __init__(self, facts: BagFacts) -> None:
        super().__init__(facts)
        self._decoder = MessageDecoder()
        self._types: set[tuple[str, bytes]] = set()
        self._undecoded: Counter[str] = Counter()
        self._robots: dict[str, _Robot] = {}
        self._version = ""
        self._now_ns = 0
        self._judge: dict[str, Callable[[_Robot, Any], None]] = {
            "/remote_inference/observation": self._take_request,
            "/remote_inference/chunk": self._take_chunk,
            EXECUTED_SUFFIX: self._take_row,
        }

    def take_message(self, message: ScannedMessage) -> Iterator[Finding]:
        channel = message.channel
        ending = next((ending for ending in OWN if channel.topic.endswith(ending)), "")
        if not ending or channel.msgtype != OWN[ending]:
            return
        robot = self._robots.setdefault(channel.topic.removesuffix(ending), _Robot())
        robot.kinds.add(ending)
        self._now_ns = message.log_time_ns
        try:
            decoded = self._decode(message)
        except Exception as error:  # rosbags raises many kinds for what does not fit a definition
            self._undecoded[channel.topic] += 1
            if self._undecoded[channel.topic] == 1:
                reason = str(error) or type(error).__name__
                yield self.problem(f"{channel.topic}: a message does not fit its definition: {reason}")
            return
        try:
            self._judge[ending](robot, decoded)
        except (AttributeError, TypeError, ValueError) as error:  # of another release: other fields, or types
            robot.wrong[f"{channel.topic}: cannot be followed: {error}"] += 1

    def _decode(self, message: ScannedMessage) -> Any:
        channel = message.channel
        if (channel.msgtype, channel.definition) not in self._types:
            self._decoder.add_type(
                channel.msgtype, channel.definition.decode(), is_idl=channel.encoding == "ros2idl"
            )
            self._types.add((channel.msgtype, channel.definition))
        return self._decoder.decode(channel.msgtype, message.data)

    def take_record(self, record: MetadataRecord) -> Iterator[Finding]:
        if record.name == RUN:
            self._version = self._version or record.values.get("package_version", "")
        yield from ()

    def _take_request(self, robot: _Robot, request: Any) -> None:
        key = (request.session_id, int(request.seq_id))
        robot.oldest = robot.oldest or key
        if robot.seq_id is not None and key[1] <= robot.seq_id and robot.seq_id != key[1] - 1:
            if key[1] == robot.seq_id:
                self._count(robot, "requests with the number of the one before")
            else:
                robot.restarts += 1
        robot.seq_id = key[1]
        _keep(robot.requests, key, None)

    def _take_chunk(self, robot: _Robot, chunk: Any) -> None:
        key = (chunk.session_id, int(chunk.seq_id))
        is_older = robot.oldest is None or key[1] < robot.oldest[1]
        if key not in robot.requests and not is_older:
            self._count(robot, "chunks whose request is not in the bag")
        _keep(robot.chunks, key, int(chunk.horizon))

    def _take_row(self, robot: _Robot, row: Any) -> None:
        tick = int(row.tick)
        if robot.tick is not None:
            if tick <= robot.tick:
                robot.restarts += 1
            else:
                robot.ticks_missing += tick - robot.tick - 1
        robot.tick = tick
        key = (row.session_id, int(row.seq_id))
        if row.source != CommandSource.CHUNK or robot.oldest is None or key[1] < robot.oldest[1]:
            return
        if key not in robot.chunks:
            self._count(robot, "executed rows whose chunk is not in the bag")
        elif row.step_index >= robot.chunks[key]:
            self._count(robot, "executed rows beyond the end of their chunk")

    def _count(self, robot: _Robot, kind: str) -> None:
        robot.wrong[kind] += 1
        robot.first_ns.setdefault(kind, self._now_ns)

    def end_bag(self) -> Iterator[Finding]:
        if self._version not in {"", __version__}:
            yield self.note(
                f"recorded with version {self._version} of the package, this is {__version__}: "
                "the messages are read by the definitions in the bag"
            )
        names = [name or "/" for name in self._robots]
        if not names:
            yield self.note("no robot of this package in the bag: no requests, chunks or commands to follow")
        if len(names) > 1:
            yield self.note(
                f"{len(names)} robots: {', '.join(names)}; other verbs take one of them by --namespace"
            )
        for name, robot in self._robots.items():
            yield from self._judge_robot(name or "/", robot)

    def _judge_robot(self, name: str, robot: _Robot) -> Iterator[Finding]:
        if absent := [ending.rpartition("/")[2] for ending in OWN if ending not in robot.kinds]:
            yield self.note(f"{name}: no messages of {', '.join(absent)}: what names them cannot be followed")
        if robot.restarts:
            yield self.note(f"{name}: the robot's node began anew {count(robot.restarts, 'time')}")
        if robot.ticks_missing:
            yield self.missing(f"{name}: no executed row of {count(robot.ticks_missing, 'control tick')}")
        for kind, number in robot.wrong.items():
            first = f", the first at {show_time(robot.first_ns[kind])}" if kind in robot.first_ns else ""
            yield self.missing(f"{name}: {number} {kind}{first}")


def _keep(kept: OrderedDict[Key, Any], key: Key, value: Any) -> None:
    kept[key] = value
    if len(kept) > KEPT_REQUESTS:
        kept.popitem(last=False)
