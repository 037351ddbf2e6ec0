# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Node `bag_recorder`: records topics into a rosbag2 bag (MCAP), with digests and with what was lost.

    bag_recorder --ros-args -p path:=run_1 -p "topics:=[/arm/remote_inference/state, /arm/joint_states]"

Subscriptions are raw: a callback queues the bytes and the time, one thread writes them. A signal finishes
the bag.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

from remote_inference.bags.nodes.recorded_robot import RecordedRobot
from remote_inference.bags.nodes.recorder_config import (
    RecorderConfig,
    RecorderError,
    message_class,
    parse_topics,
)
from remote_inference.bags.storage import bag_records as records
from remote_inference.bags.storage.bag_records import BagClock, BagError, BagTopic, LossReport, LostMessages
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.base.background_writer import BackgroundWriter
from remote_inference.base.contract.contract import load_contract
from remote_inference.base.documents.document import DocumentError
from remote_inference.base.nodes.executors import spin_once, with_info
from remote_inference.base.nodes.graph import find_other_type
from remote_inference.base.nodes.parameters import declare_parameters
from remote_inference.base.nodes.robot_logger import RobotNode
from remote_inference.base.nodes.runtime import run_node
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.wire.qos import DECISIONS_QOS, EXCHANGE_QOS, EXECUTED_QOS, LATCHED_QOS

SUBSCRIPTION_DEPTH = 100  # messages that may wait in the middleware while the executor is busy

# QoS that publishers of the package's own messages offer, by message type.
OFFERED_QOS = {
    "remote_inference/msg/Observation": EXCHANGE_QOS,
    "remote_inference/msg/ActionChunk": EXCHANGE_QOS,
    "remote_inference/msg/ClientState": LATCHED_QOS,
    "remote_inference/msg/ExecutedAction": EXECUTED_QOS,
    "remote_inference/msg/Decisions": DECISIONS_QOS,
    "remote_inference/msg/ServerStatus": LATCHED_QOS,
    "remote_inference/msg/WatchdogState": LATCHED_QOS,
}


def subscription_qos(offered: Iterable[QoSProfile]) -> QoSProfile:
    """Return the strongest QoS that is compatible with every offered one; without offers, with any."""
    offers = list(offered)
    reliable = offers and all(o.reliability == ReliabilityPolicy.RELIABLE for o in offers)
    latched = offers and all(o.durability == DurabilityPolicy.TRANSIENT_LOCAL for o in offers)
    return QoSProfile(
        depth=max([SUBSCRIPTION_DEPTH, *(o.depth for o in offers)]),
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def recorded_qos(profile: QoSProfile) -> Qos:
    def span(duration: Any) -> QosTime:
        return QosTime(*divmod(duration.nanoseconds, 10**9))

    return Qos(
        QosHistory(profile.history.value),
        profile.depth,
        QosReliability(profile.reliability.value),
        QosDurability(profile.durability.value),
        span(profile.deadline),
        span(profile.lifespan),
        QosLiveliness(profile.liveliness.value),
        span(profile.liveliness_lease_duration),
        profile.avoid_ros_namespace_conventions,
    )


@dataclass(frozen=True)
class Entry:
    """Something to be written to the bag. Its `write` raises as BagWriter's methods."""

    write: Callable[[BagWriter], None]
    topic: str = ""  # by which messages are counted when they are lost; empty: no message
    size: int = 0  # [bytes] while it waits


POLL_S = 0.5  # how often losses are written
SEARCH_S = 0.1  # how often the graph is searched for topics that are not subscribed to yet
DISCOVERY_S = 5.0  # for the publishers of a topic that is named with its type: DDS may take three seconds
CLOSE_TIMEOUT_S = 15.0  # for the messages that still wait to be written
_DRAIN_QUIET_SPINS = 3  # after a signal, arrived messages are taken until this many spins bring nothing ...
_DRAIN_LIMIT_S = 1.0  # ... or until this time is over


class BagRecorder(RobotNode):
    """Subscribes to the topics of its parameters and hands their bytes to the writer.

    Raises DocumentError when a parameter is wrong, RecorderError when a topic is or the bag exists.
    """

    def __init__(self) -> None:
        super().__init__("bag_recorder")
        config = declare_parameters(self, RecorderConfig)
        self.exit_code: int | None = None
        self.schedule = TimerSchedule()
        self._requested = parse_topics(config.topics)
        classes = {name: message_class(msgtype) for name, msgtype in self._requested.items() if msgtype}
        self._bag = _open_bag(config)
        self._writer: BackgroundWriter[Entry] = BackgroundWriter(
            "bag_writer",
            lambda entry: entry.write(self._bag),
            config.queue_size,
            kind=lambda entry: entry.topic,
            size=lambda entry: entry.size,
            waiting_bytes_max=config.queue_bytes,
            stops_at_failure=True,
        )
        self._clock_of_bag = BagClock()
        self._described: dict[str, BagTopic] = {}
        self._losses, self._loss_report = LostMessages(), LossReport()
        self._jumps: deque[dict[str, str]] = deque()  # of the clock, that are not written yet
        self._reported_losses: dict[str, Any] = {"queue": {}, "before": {}, "uncounted": []}
        self._robot = RecordedRobot(self, config.robot, self._add_record)
        self.received = 0
        own = {name for name, msgtype in self._requested.items() if msgtype in OFFERED_QOS}
        for name in own:
            self._subscribe(name, self._requested[name], classes[name])
        self._waiting = [name for name in self._requested if name not in own]
        self._mistyped: set[str] = set()  # topics that are published with another type, which was logged
        self._typed_by_s = time.monotonic() + DISCOVERY_S
        self.schedule.every(SEARCH_S, self._subscribe_waiting)
        self.schedule.every(POLL_S, self._poll)
        self.get_logger().info(f"recording {len(self._requested)} topics to {config.path}")

    def _offers(self, name: str, msgtype: str) -> list[QoSProfile]:
        if msgtype in OFFERED_QOS:
            return [OFFERED_QOS[msgtype]]
        return [endpoint.qos_profile for endpoint in self.get_publishers_info_by_topic(name)]

    def _subscribe(self, name: str, msgtype: str, cls: Any) -> None:
        qos = subscription_qos(self._offers(name, msgtype))
        self.create_subscription(
            cls, name, with_info(partial(self._queue_message, name, msgtype)), qos, raw=True
        )

    def _queue_message(self, name: str, msgtype: str, cdr: bytes, info: dict[str, Any]) -> None:
        stamp_ns = self._clock_of_bag.now_ns()
        # 0 where the middleware gives none.
        sequence = (info.get("publication_sequence_number") or 0) % records.SEQUENCES
        publish_ns = max(info.get("source_timestamp") or stamp_ns, 0)
        topic = self._describe(name, msgtype)

        def write(bag: BagWriter) -> None:
            if name not in bag:
                bag.add_topic(topic)
            bag.write(name, stamp_ns, cdr, publish_ns=publish_ns, sequence=sequence)

        self._losses.add(name, sequence)
        self._writer.put(Entry(write, name, len(cdr)))
        self._robot.read_status(name, msgtype, cdr)
        self.received += 1

    def _add_record(self, name: str, values: dict[str, str], kept_for: str | None = None) -> bool:
        return self._writer.put(Entry(lambda bag: bag.add_record(name, values, kept_for=kept_for)))

    def _describe(self, name: str, msgtype: str) -> BagTopic:
        """Return the topic for the bag, with the QoS on offer when its first message came."""
        if name not in self._described:
            offered = tuple(dict.fromkeys(recorded_qos(qos) for qos in self._offers(name, msgtype)))
            self._described[name] = BagTopic(name, msgtype, offered)
        return self._described[name]

    def _poll(self) -> None:
        """Write what was lost; end when the writing has ended."""
        if self._writer.failure is not None:
            self.exit_code = 1
            return
        self._robot.poll()
        self._report_losses()
        if jump := self._clock_of_bag.find_jump():
            jumped = f"the wall clock jumped by {jump['jump_s']} s"
            self.get_logger().warning(f"{jumped}; the bag's time goes on steadily")
            self._jumps.append(jump)
        while self._jumps and self._add_record(records.CLOCK, self._jumps[0]):
            self._jumps.popleft()
        now_ns = self._clock_of_bag.now_ns()
        self._writer.put(Entry(lambda bag: bag.tick(now_ns)))  # ends a chunk when no message comes

    def _report_losses(self) -> None:
        """Write the losses so far to the bag, and what is due of them to the log, when they have grown."""
        for name in self._described:
            self._losses.set_publishers(name, self.count_publishers(name))
        losses = self._lost()
        for line in self._loss_report.lines(losses, time.monotonic()):
            self.get_logger().warning(line)
        if losses != self._reported_losses:
            values = {cause: json.dumps(found) for cause, found in losses.items()}
            if self._add_record(records.LOSSES, values, ""):
                self._reported_losses = losses

    def _lost(self) -> dict[str, Any]:
        """Return the messages lost so far, by cause and topic, and the topics without a count."""
        queue = {name: n for name in self._requested if (n := self._writer.dropped_of(name))}
        uncounted = sorted(self._losses.uncounted)
        return {"queue": queue, "before": dict(self._losses.before), "uncounted": uncounted}

    def _lost_of(self, name: str) -> int:
        return self._writer.dropped_of(name) + self._losses.before[name]

    def _subscribe_waiting(self) -> None:
        """Subscribe to topics whose publishers are there: only then it is known whether one keeps a message.

        One that has a type is not waited for any longer, lest its first messages are missed.
        """
        is_late = time.monotonic() >= self._typed_by_s
        published = {name for name in self._waiting if self.count_publishers(name)}
        # The whole graph is large, and a topic may be waited for as long as the recording lasts.
        graph = dict(self.get_topic_names_and_types()) if published else {}
        for name in list(self._waiting):
            msgtype = self._requested[name]
            if msgtype and name in published and self._has_other_type(name, msgtype):
                continue
            if msgtype and (is_late or name in published):
                self._subscribe_discovered(name, [msgtype])
            elif name in published and name in graph:
                self._subscribe_discovered(name, graph[name])

    def _has_other_type(self, name: str, msgtype: str) -> bool:
        """Return whether a topic is published with other types than its own alone, and say so once."""
        found = find_other_type(self.get_publishers_info_by_topic(name), msgtype)
        if found and name not in self._mistyped:
            self._mistyped.add(name)
            self.get_logger().error(f"not recording {name} yet: published as {found}")
        return bool(found)

    def _subscribe_discovered(self, name: str, types: list[str]) -> None:
        self._waiting.remove(name)
        try:
            if len(types) > 1:
                found = f"published as {' and as '.join(types)}"
                raise RecorderError(f"{found}; name one as '{name}:pkg/msg/Type'")
            self._requested[name] = types[0]
            self._subscribe(name, types[0], message_class(types[0]))
        except RecorderError as error:
            self.get_logger().error(f"not recording {name}: {error}")

    def close(self) -> None:
        """Write the messages that have reached this process, finish the bag and log its contents."""
        self._drain()
        self._report_losses()
        ended = self._writer.close(CLOSE_TIMEOUT_S)
        problem = self._finish_bag() if ended else f"the disk has not answered for {CLOSE_TIMEOUT_S:g} s"
        for name in self._requested:
            lost = f", {n} lost" if (n := self._lost_of(name)) else ""
            self.get_logger().info(f"{name}: {self._bag.counts.get(name, 0)} messages{lost}")
        if problem:
            self.get_logger().fatal(f"recording to {self._bag.path} ended early: {problem}")
            self.exit_code = 1
        else:
            self.get_logger().info(f"{self._bag.path}: digest {self._bag.digest}")

    def _finish_bag(self) -> str:
        """Write the bag's index; return why the recording ended early, empty when it did not.

        A bag that may not grow is finished, because there is room for that; a failed write leaves it
        unfinished.
        """
        failure = self._writer.failure
        try:
            if isinstance(failure, OSError):
                self._bag.abandon()
                raise failure
            for name, msgtype in self._requested.items():
                if msgtype and name not in self._bag and failure is None:
                    self._bag.add_topic(self._describe(name, msgtype))
            lost = {name: self._lost_of(name) for name in self._requested if self._lost_of(name)}
            self._bag.close(str(failure or "told to stop"), lost)
        except OSError as error:  # the disk may have become full with the index
            return f"{error}; {records.advise_repair(self._bag.path)}"
        except Exception as error:
            failure = failure or error
        return "" if failure is None else str(failure)

    def _drain(self) -> None:
        deadline, quiet = time.monotonic() + _DRAIN_LIMIT_S, 0
        while quiet < _DRAIN_QUIET_SPINS and time.monotonic() < deadline:
            received = self.received
            spin_once(self, 0.01)
            quiet = 0 if self.received > received else quiet + 1


def _open_bag(config: RecorderConfig) -> BagWriter:
    text = ""
    if config.contract:
        try:
            load_contract(config.contract)
            text = Path(config.contract).read_text(encoding="utf-8")
        except (DocumentError, OSError) as error:
            raise RecorderError(f"parameter contract: {error}") from error
    recorder = json.dumps(config.model_dump(mode="json"), sort_keys=True)
    try:
        return BagWriter(
            Path(config.path), contract=text, facts={"recorder": recorder}, limits=config.limits()
        )
    except BagError as error:
        raise RecorderError(str(error)) from error


def main(args: list[str] | None = None) -> int:
    """Record until a signal; return the exit code, 1 when the recording ended early."""
    return run_node(BagRecorder, args)
