# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tells whether a controller hears a command, or at most nodes that look on."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rclpy.duration import Infinite
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible

from remote_inference.core.contract.commands.sink import CommandSink
from remote_inference.core.contract.commands.subscribers import is_controller
from remote_inference.nodes.graph import UNKNOWN_NODE, full_name
from remote_inference.wire.qos import COMMAND_QOS

REPEAT_S = 1.0  # until the graph is read again where the number of subscribers stays as it is
# As the graph shows ours: what a profile leaves out has no bound, and rclpy takes the two for different.
_OFFERED = QoSProfile(
    depth=COMMAND_QOS.depth,
    reliability=COMMAND_QOS.reliability,
    durability=COMMAND_QOS.durability,
    deadline=Infinite,
    liveliness_lease_duration=Infinite,
)


def check_command_qos(asked: QoSProfile) -> tuple[QoSCompatibility, str]:
    """Return whether a subscription, as the graph shows it, gets our commands, and why not."""
    judged: tuple[QoSCompatibility, str] = qos_check_compatible(_OFFERED, asked)
    return judged


class ControllerWatch:
    """Counts the subscribers of each command in each tick, and finds out more rarely which of them look on.

    A controller that comes is heard of at once, by their number. Where observers stay, one that leaves is
    missed by the next `look`.
    """

    def __init__(self, node: Node, commands: Sequence[tuple[CommandSink, Publisher]]) -> None:
        self._node = node
        self._namespace = node.get_namespace()
        self._commands = tuple(commands)
        self._observers: dict[str, int] = {}  # by topic: subscribers, where none of them is a controller
        self._known: dict[str, tuple[int, float]] = {}  # by topic: subscribers, all known, and when [s]

    def unheard(self) -> tuple[str, ...]:
        """Return the topics of the commands that no controller hears. The control thread calls this."""
        return tuple(
            sink.topic
            for sink, publisher in self._commands
            if publisher.get_subscription_count() <= self._observers.get(sink.topic, 0)
        )

    def look(self) -> None:
        """Find out in the graph which subscribers are controllers. Not for the control thread."""
        for sink, publisher in self._commands:
            count, now_s = publisher.get_subscription_count(), time.monotonic()
            known, known_s = self._known.get(sink.topic, (-1, 0.0))
            if count == known and now_s - known_s < REPEAT_S:
                continue
            nodes = self._find_subscribers(publisher.topic_name, sink.type)
            heard = any(is_controller(node, sink, self._namespace) for node in nodes)
            self._observers[sink.topic] = 0 if heard else len(nodes)
            if len(nodes) == count:  # else it is looked again: a name may come later than its subscription
                self._known[sink.topic] = count, now_s

    def _find_subscribers(self, topic: str, kind: str) -> list[str]:
        """Return the full names of nodes whose subscriptions match ours; a nameless one is left out."""
        return [
            full_name(endpoint)
            for endpoint in self._node.get_subscriptions_info_by_topic(topic)
            if endpoint.topic_type == kind
            and endpoint.node_name != UNKNOWN_NODE
            and check_command_qos(endpoint.qos_profile)[0] != QoSCompatibility.ERROR
        ]
