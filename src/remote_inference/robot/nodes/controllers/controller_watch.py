# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds out whether a controller subscribes to a command, or at most observers do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from rclpy.duration import Duration, Infinite
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible

from remote_inference.base.contract.commands.controller_facts import is_controller
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.nodes.graph import UNKNOWN_NODE, full_name
from remote_inference.base.wire.qos import COMMAND_QOS

REPEAT_S = 1.0  # until the graph is read again where the number of subscribers stays as it is
DEAF_S = 0.5  # a subscriber that acknowledges nothing for so long may have died
RESTART_S = 3.0  # Fast DDS may let a new subscription hear nothing for so long where another has died
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
    """Counts the subscribers of each command in each tick; finds out more rarely which are observers.

    A controller that comes is noticed at once, by their number. Where observers stay, one that leaves is
    noticed by the next `update`. Of one that was killed, discovery shows the subscription for many seconds:
    when its successor comes, it counts as absent until that one surely receives.
    """

    def __init__(
        self,
        node: Node,
        commands: Sequence[tuple[CommandSink, Publisher]],
        find_inactive: Callable[[str], str] = lambda _: "",
    ) -> None:
        """find_inactive: of a controller's full name, its state if it takes nothing now, else ""."""
        self._node = node
        self._namespace = node.get_namespace()
        self._commands = tuple(commands)
        self._find_inactive = find_inactive
        self._lock = Lock()  # of the callers: the control thread updates for a controller that comes
        self._observers: dict[str, int] = {}  # by topic: subscribers, where none of them is a controller
        self._known: dict[str, tuple[int, float]] = {}  # by topic: subscribers, all known, and when [s]
        self._counted: dict[str, int] = {}  # by topic: subscribers in the last tick or look
        self._acknowledged_s: dict[str, float] = {}  # by topic: when the last look found that all had heard
        self._takers: dict[str, dict[bytes, str]] = {}  # by topic: the controllers by their subscriptions
        self._new_until_s: dict[str, float] = {}  # by topic: its controller has died and come anew

    def unsubscribed(self) -> tuple[str, ...]:
        """Return the topics of commands without a subscribed controller. The control thread calls this."""
        return tuple(sink.topic for sink, publisher in self._commands if not self._is_heard(sink, publisher))

    def _is_heard(self, sink: CommandSink, publisher: Publisher) -> bool:
        count = publisher.get_subscription_count()
        before, self._counted[sink.topic] = self._counted.get(sink.topic, count), count
        if count > before and self._takers.get(sink.topic):  # at once: the next command may be its first
            self._update_topic(sink, publisher)
        return count > self._observers.get(sink.topic, 0) and not self.why_absent(sink.topic)

    def why_absent(self, topic: str) -> str:
        """Return why controllers that subscribe to a command do not receive it; empty when they do."""
        if time.monotonic() < self._new_until_s.get(topic, 0.0):
            return "its controller was started anew"
        states = {node: self._find_inactive(node) for node in self._takers.get(topic, {}).values()}
        if not all(states.values()):
            return ""
        return ", ".join(f"controller {node} is {state}" for node, state in states.items())

    @property
    def takers(self) -> dict[str, dict[bytes, str]]:
        """The controllers of each command, by topic: full names of their nodes by subscription."""
        return dict(self._takers)

    def update(self) -> None:
        """Find out in the graph which subscribers are controllers. Not for the control thread."""
        for sink, publisher in self._commands:
            count, now_s = publisher.get_subscription_count(), time.monotonic()
            if publisher.wait_for_all_acked(Duration()):
                self._acknowledged_s[sink.topic] = now_s
            known, known_s = self._known.get(sink.topic, (-1, 0.0))
            if count != known or now_s - known_s >= REPEAT_S:
                self._update_topic(sink, publisher)

    def _update_topic(self, sink: CommandSink, publisher: Publisher) -> None:
        with self._lock:
            topic, count, now_s = sink.topic, publisher.get_subscription_count(), time.monotonic()
            found = self._find_subscribers(publisher.topic_name, sink.type)
            nodes = {bytes(endpoint.endpoint_gid): full_name(endpoint) for endpoint in found}
            takers = {gid: node for gid, node in nodes.items() if is_controller(node, sink, self._namespace)}
            before = self._takers.get(topic, {})
            twins = {takers[gid] for gid in takers.keys() - before.keys()} & set(before.values())
            # Its name may come seconds later than its subscription: then a death alone tells who it is.
            is_deaf = now_s - self._acknowledged_s.get(topic, now_s) > DEAF_S
            if twins or (before and is_deaf and count > len(nodes)):
                self._new_until_s[topic] = now_s + RESTART_S
            self._takers[topic], self._counted[topic] = takers, count
            self._observers[topic] = 0 if takers else len(nodes)
            if len(nodes) == count:  # else it is checked again: a name may come later than its subscription
                self._known[topic] = count, now_s

    def _find_subscribers(self, topic: str, kind: str) -> list[Any]:
        """Return the endpoints whose subscriptions match ours; one of a nameless node is left out."""
        return [
            endpoint
            for endpoint in self._node.get_subscriptions_info_by_topic(topic)
            if endpoint.topic_type == kind
            and endpoint.node_name != UNKNOWN_NODE
            and check_command_qos(endpoint.qos_profile)[0] != QoSCompatibility.ERROR
        ]
