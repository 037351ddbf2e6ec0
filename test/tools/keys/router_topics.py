# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Topics of a fleet, and endpoints as rmw_zenoh declares them."""

from __future__ import annotations

from typing import Any

import zenoh
from keys_rig import topic
from zenoh import ext

ROBOT_TOPICS = ("observation", "state", "executed")
ROBOT_1, ROBOT_2 = "/robot_1/remote_inference", "/robot_2/remote_inference"
OBSERVATION_1 = topic("robot_1/remote_inference/observation")
CHUNK_1 = topic("robot_1/remote_inference/chunk")
RESET_1 = topic("robot_1/remote_inference/reset", "srv")
OPEN_1 = topic("gpu_1/open_session", "srv")
WEIGHTS_1, REPLIES_1 = topic("gpu_1/weights"), topic("gpu_1/weights_replies")
LINK_1 = topic("gpu_1/open_weights_link", "srv")


def tokens_for(session: zenoh.Session) -> set[str]:
    """Ask for all tokens once."""
    replies = session.liveliness().get("@ros2_lv/0/**", timeout=5.0)
    return {str(reply.ok.key_expr) for reply in replies if reply.ok}


def declare_querier(session: zenoh.Session, key: str) -> zenoh.Querier:
    """Return a client's querier as rmw_zenoh declares it, but with a shorter timeout."""
    return session.declare_querier(key, target=zenoh.QueryTarget.ALL_COMPLETE, timeout=2.0)


def answers(querier: zenoh.Querier, payload: str = "") -> list[str]:
    return [reply.ok.payload.to_string() for reply in querier.get(payload=payload) if reply.ok]


def advanced_publisher(session: zenoh.Session, key: str) -> Any:
    """Return a publisher as rmw_zenoh makes it for TRANSIENT_LOCAL and RELIABLE."""
    return ext.declare_advanced_publisher(
        session,
        key,
        cache=ext.CacheConfig(max_samples=1),
        publisher_detection=True,
        sample_miss_detection=ext.MissDetectionConfig(sporadic_heartbeat=0.5),
    )


def advanced_subscriber(session: zenoh.Session, key: str, got: list[str]) -> Any:
    return ext.declare_advanced_subscriber(
        session,
        key,
        lambda sample: got.append(sample.payload.to_string()),
        history=ext.HistoryConfig(detect_late_publishers=True, max_samples=1),
        recovery=ext.RecoveryConfig(heartbeat=True),
        subscriber_detection=True,
    )
