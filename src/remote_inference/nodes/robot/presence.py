# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds in the graph the endpoints of the server in use, and another node of the robot's name."""

from __future__ import annotations

from rclpy.node import Node

from remote_inference.nodes.graph import identify_endpoints
from remote_inference.wire.qos import CHUNK_TOPIC, OBSERVATION_TOPIC


class Presence:
    """Watches whether the server's endpoints for this robot are in the graph, both ways.

    A killed server's endpoints may linger in the graph; only those that appeared after `expect` count.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._own_name = node.get_fully_qualified_name()
        self._chunk_topic = node.resolve_topic_name(CHUNK_TOPIC)
        self._observation_topic = node.resolve_topic_name(OBSERVATION_TOPIC)
        self._old: frozenset[bytes] = frozenset()

    def expect(self) -> None:
        """Count only endpoints that appear after this call."""
        self._old = frozenset(gid for _, gid in self._publishers() | self._subscribers())

    def check(self, server: str) -> bool:
        """Return whether `server` publishes chunks for this robot and subscribes to its observations."""
        return all(
            any(name == server and gid not in self._old for name, gid in endpoints)
            for endpoints in (self._publishers(), self._subscribers())
        )

    def has_rival(self) -> bool:
        """Return whether another node of our name publishes this robot's observations."""
        publishers = self._node.get_publishers_info_by_topic(self._observation_topic)
        return sum(name == self._own_name for name, _ in identify_endpoints(publishers)) > 1

    def _publishers(self) -> set[tuple[str, bytes]]:
        return identify_endpoints(self._node.get_publishers_info_by_topic(self._chunk_topic))

    def _subscribers(self) -> set[tuple[str, bytes]]:
        return identify_endpoints(self._node.get_subscriptions_info_by_topic(self._observation_topic))
