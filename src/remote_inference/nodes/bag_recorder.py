# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Node `bag_recorder`: records topics into a rosbag2 bag (MCAP) where `ros2 bag record` is not at hand.

    bag_recorder --ros-args -p path:=run_1 -p "topics:=[/arm/remote_inference/state, /arm/joint_states]"

Subscriptions are raw: a callback deposits the bytes and the time, one thread writes them. SIGINT or SIGTERM
finishes the bag.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

from remote_inference.core.contract import load_contract
from remote_inference.core.document import Document, DocumentError
from remote_inference.nodes.parameters import declare_parameters
from remote_inference.nodes.runtime import STEADY_CLOCK, StartupError, run_node
from remote_inference.recording.background_writer import BackgroundWriter
from remote_inference.recording.bag import BagError, BagTopic, BagWriter
from remote_inference.wire import WireError, message_types
from remote_inference.wire.qos import EXCHANGE_QOS, EXECUTED_QOS, LATCHED_QOS

GRAPH_POLL_S = 0.5  # how often the graph is searched for topics named without a type
SUBSCRIPTION_DEPTH = 100  # messages that may wait in the middleware while the executor is busy
CLOSE_TIMEOUT_S = 15.0  # for the messages that still wait to be written
_DRAIN_QUIET_SPINS = 3  # after a signal, arrived messages are taken until this many spins bring nothing ...
_DRAIN_LIMIT_S = 1.0  # ... or until this time is over

# QoS that publishers of the package's own messages offer, by message type.
OFFERED_QOS = {
    "remote_inference/msg/Observation": EXCHANGE_QOS,
    "remote_inference/msg/ActionChunk": EXCHANGE_QOS,
    "remote_inference/msg/ClientState": LATCHED_QOS,
    "remote_inference/msg/ExecutedAction": EXECUTED_QOS,
    "remote_inference/msg/ServerStatus": LATCHED_QOS,
    "remote_inference/msg/WatchdogState": LATCHED_QOS,
}


class RecorderError(StartupError):
    """The recorder cannot start; names the parameter and what is wrong with it."""


class RecorderConfig(Document):
    """The recorder's parameters."""

    path: Annotated[str, Field(min_length=1, description="folder of the bag to create")]
    topics: Annotated[
        tuple[str, ...],
        Field(
            description="absolute topic names; `/name:pkg/msg/Type` subscribes before any publisher exists, "
            "without type the topic is recorded once it shows in the graph, with the QoS that is offered"
        ),
    ]
    queue_size: Annotated[
        int,
        Field(ge=1, le=1_000_000, description="messages that may wait to be written; more are dropped"),
    ] = 10_000
    contract: Annotated[
        str,
        Field(description="the recorded robot's contract; the bag carries its text: joints, units, limits"),
    ] = ""


def parse_topics(entries: Iterable[str]) -> dict[str, str]:
    """Return message type by topic from entries `/name:type`, or `/name` with an empty type.

    Raises RecorderError when there is no entry, a name is not absolute, or a topic is named twice.
    """
    topics: dict[str, str] = {}
    for entry in entries:
        name, _, msgtype = entry.partition(":")
        if not name.startswith("/"):
            raise RecorderError(
                f"parameter topics: found {entry!r}, expected an absolute name, which begins with '/'"
            )
        if name in topics:
            raise RecorderError(f"parameter topics: {name} is named twice")
        topics[name] = msgtype
    if not topics:
        raise RecorderError(
            "parameter topics: no topic named, expected entries '/name' or '/name:pkg/msg/Type'"
        )
    return topics


def message_class(msgtype: str) -> Any:
    """Return the Python class of `package/msg/Name`. Raises RecorderError when it is not installed."""
    try:
        return message_types.message_class(msgtype)
    except WireError as error:
        raise RecorderError(str(error)) from error


def contract_text(path: str) -> str:
    """Return the text of a contract. Raises RecorderError for an invalid contract."""
    try:
        load_contract(path)
        return Path(path).read_text(encoding="utf-8")
    except (DocumentError, OSError) as error:
        raise RecorderError(f"parameter contract: {error}") from error


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
    """Return a profile as a bag's metadata holds it."""

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


Message = tuple[BagTopic, int, bytes]  # topic, reception [ns], CDR bytes


class BagRecorder(Node):
    """Subscribes to the topics of its parameters and hands their bytes to the writer.

    Raises DocumentError when a parameter is wrong, RecorderError when a topic is or the bag exists.
    """

    def __init__(self) -> None:
        super().__init__("bag_recorder")
        config = declare_parameters(self, RecorderConfig)
        self.exit_code: int | None = None
        self._requested = parse_topics(config.topics)
        classes = {name: message_class(msgtype) for name, msgtype in self._requested.items() if msgtype}
        try:
            text = contract_text(config.contract) if config.contract else ""
            self._bag = BagWriter(Path(config.path), contract=text)
        except BagError as error:
            raise RecorderError(str(error)) from error
        self._writer: BackgroundWriter[Message] = BackgroundWriter(
            "bag_writer",
            self._write,
            config.queue_size,
            kind=lambda message: message[0].name,
            stops_at_failure=True,
        )
        self._described: dict[str, BagTopic] = {}
        self._reported_drops = 0
        self.received = 0
        for name, cls in classes.items():
            self._subscribe(name, self._requested[name], cls)
        self._waiting = [name for name, msgtype in self._requested.items() if not msgtype]
        self.create_timer(GRAPH_POLL_S, self._poll, clock=STEADY_CLOCK)
        self.get_logger().info(f"recording {len(self._requested)} topics to {config.path}")

    def _offers(self, name: str, msgtype: str) -> list[QoSProfile]:
        if msgtype in OFFERED_QOS:
            return [OFFERED_QOS[msgtype]]
        return [endpoint.qos_profile for endpoint in self.get_publishers_info_by_topic(name)]

    def _subscribe(self, name: str, msgtype: str, cls: Any) -> None:
        qos = subscription_qos(self._offers(name, msgtype))
        self.create_subscription(cls, name, partial(self._deposit, name, msgtype), qos, raw=True)

    def _deposit(self, name: str, msgtype: str, cdr: bytes) -> None:
        stamp_ns = time.time_ns()
        self._writer.put((self._describe(name, msgtype), stamp_ns, cdr))
        self.received += 1

    def _write(self, message: Message) -> None:
        """Write one message to the bag. The writer's thread calls it."""
        topic, stamp_ns, cdr = message
        if topic.name not in self._bag:
            self._bag.add_topic(topic)
        self._bag.write(topic.name, stamp_ns, cdr)

    def _describe(self, name: str, msgtype: str) -> BagTopic:
        """Return the topic for the bag, with the QoS on offer when its first message came."""
        if name not in self._described:
            offered = tuple(dict.fromkeys(recorded_qos(qos) for qos in self._offers(name, msgtype)))
            self._described[name] = BagTopic(name, msgtype, offered)
        return self._described[name]

    def _poll(self) -> None:
        """Record topics that have appeared; report drops; end when the writing has ended."""
        if self._writer.failure is not None:
            self.exit_code = 1
        if self._waiting:
            graph = dict(self.get_topic_names_and_types())
            for name in [n for n in self._waiting if n in graph and self.count_publishers(n)]:
                self._take_up(name, graph[name])
        dropped = self._writer.dropped
        if self._writer.failure is None and dropped > self._reported_drops:
            self._reported_drops = dropped
            self.get_logger().warning(
                f"{dropped} messages dropped so far, the queue is full: the disk is too slow"
            )

    def _take_up(self, name: str, types: list[str]) -> None:
        self._waiting.remove(name)
        try:
            if len(types) > 1:
                raise RecorderError(
                    f"published as {' and as '.join(types)}; name one as '{name}:pkg/msg/Type'"
                )
            self._requested[name] = types[0]
            self._subscribe(name, types[0], message_class(types[0]))
        except RecorderError as error:
            self.get_logger().error(f"not recording {name}: {error}")

    def close(self) -> None:
        """Take the messages that have reached this process, finish the bag and log its contents."""
        self._drain()
        ended = self._writer.close(CLOSE_TIMEOUT_S)
        problem = self._finish_bag() if ended else f"the disk has not answered for {CLOSE_TIMEOUT_S:g} s"
        for name in self._requested:
            drops = f", {n} dropped" if (n := self._writer.dropped_of(name)) else ""
            self.get_logger().info(f"{name}: {self._bag.counts.get(name, 0)} messages{drops}")
        if problem:
            self.get_logger().fatal(f"recording to {self._bag.path} ended early: {problem}")
            self.exit_code = 1

    def _finish_bag(self) -> str:
        """Write the bag's index; return why the recording ended early, empty when it did not."""
        failure = self._writer.failure
        try:
            for name, msgtype in self._requested.items():
                if msgtype and name not in self._bag and failure is None:
                    self._bag.add_topic(self._describe(name, msgtype))
            self._bag.close()
        except Exception as error:  # the disk may have become full with the index
            failure = failure or error
        return "" if failure is None else str(failure)

    def _drain(self) -> None:
        assert self.executor is not None, "run_node spins this node until it closes it"
        deadline, quiet = time.monotonic() + _DRAIN_LIMIT_S, 0
        while quiet < _DRAIN_QUIET_SPINS and time.monotonic() < deadline:
            received = self.received
            self.executor.spin_once(timeout_sec=0.01)
            quiet = 0 if self.received > received else quiet + 1


def main(args: list[str] | None = None) -> int:
    """Record until SIGINT or SIGTERM; return the exit code, 1 when the recording ended early."""
    return run_node(BagRecorder, args)
