# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Quality of service of the recorder's subscriptions, and how a bag holds the publishers'."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

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
