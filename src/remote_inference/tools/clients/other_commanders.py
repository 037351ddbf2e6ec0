# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds other nodes that command a robot, in the ROS graph."""

from __future__ import annotations

from collections.abc import Iterator

from remote_inference.base.clients.operator_client import POLL_S, ROBOT_NODE, OperatorClient
from remote_inference.base.contract.contract import Contract
from remote_inference.base.exchange import in_namespace
from remote_inference.base.nodes.graph import full_name

NAMES_S = 0.5  # an endpoint may be known before the name of its node is
WATCHDOG_NODE = "command_watchdog"


def find_other_commanders(
    client: OperatorClient, namespace: str, contract: Contract, watch_s: float
) -> list[str]:
    """Return who commands a robot, one text each; watch the graph for a time, or until there is one.

    The robot's own watchdog commands nothing while no node beats. One that is left over ends soon after its
    node, or nobody ended it: then it would watch the next node beside that one's own.
    """
    for _ in range(max(1, round(watch_s / POLL_S))):
        client.spin(POLL_S)
        if _find_nodes(client, namespace, contract):
            client.spin(NAMES_S)
            if found := _find_nodes(client, namespace, contract):
                return found
    return _find_left_watchdog(client, namespace, contract)


def _find_nodes(client: OperatorClient, namespace: str, contract: Contract) -> list[str]:
    watchdog = in_namespace(namespace, WATCHDOG_NODE)
    found = {
        f"{name} publishes {topic}"
        for name, topic in _find_publishers(client, namespace, contract)
        if name != watchdog
    }
    node = in_namespace(namespace, ROBOT_NODE)
    if (namespace or "/") in client.find_robots():
        found.add(f"{node} is running")
    return sorted(found)


def _find_left_watchdog(client: OperatorClient, namespace: str, contract: Contract) -> list[str]:
    watchdog = in_namespace(namespace, WATCHDOG_NODE)
    is_left = any(name == watchdog for name, _ in _find_publishers(client, namespace, contract))
    return [f"{watchdog}, the robot's watchdog, is left over of an earlier run"] if is_left else []


def _find_publishers(client: OperatorClient, namespace: str, contract: Contract) -> Iterator[tuple[str, str]]:
    """Yield the full name of each node that publishes commands, with the topic."""
    for sink in contract.topic_commands:
        topic = in_namespace(namespace, sink.topic)
        for endpoint in client.node.get_publishers_info_by_topic(topic):
            yield full_name(endpoint), topic
