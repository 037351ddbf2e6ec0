# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the recorder subscribes to, and what its callbacks hand to the thread that writes the bag."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

from remote_inference.recording.bags.bag_records import BagTopic
from remote_inference.recording.bags.bag_writer import BagWriter
from remote_inference.wire.qos import DECISIONS_QOS, EXCHANGE_QOS, EXECUTED_QOS, LATCHED_QOS

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


class Entry(Protocol):
    """Something to be written."""

    @property
    def kind(self) -> str:
        """What is counted when the entry is lost: a topic's name, or nothing."""

    @property
    def size(self) -> int:
        """Bytes that it holds while it waits."""

    def write(self, bag: BagWriter) -> None:
        """Write it to the bag. Raises as BagWriter's methods."""


@dataclass(frozen=True)
class MessageEntry:
    """A message on its way to the bag."""

    topic: BagTopic
    stamp_ns: int  # reception, by the bag's clock
    publish_ns: int
    sequence: int  # 0: the middleware does not say
    cdr: bytes

    @property
    def kind(self) -> str:
        return self.topic.name

    @property
    def size(self) -> int:
        return len(self.cdr)

    def write(self, bag: BagWriter) -> None:
        if self.topic.name not in bag:
            bag.add_topic(self.topic)
        bag.write(
            self.topic.name, self.stamp_ns, self.cdr, publish_ns=self.publish_ns, sequence=self.sequence
        )


@dataclass(frozen=True)
class RecordEntry:
    """A metadata record on its way to the bag."""

    name: str
    values: dict[str, str]
    kept_for: str | None = None
    kind: ClassVar[str] = ""
    size: ClassVar[int] = 0

    def write(self, bag: BagWriter) -> None:
        bag.add_record(self.name, self.values, kept_for=self.kept_for)


@dataclass(frozen=True)
class TickEntry:
    """Ends a chunk in time when no message comes."""

    now_ns: int
    kind: ClassVar[str] = ""
    size: ClassVar[int] = 0

    def write(self, bag: BagWriter) -> None:
        bag.tick(self.now_ns)
