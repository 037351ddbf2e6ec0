# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds in the graph who else commands a robot."""

from __future__ import annotations

from collections.abc import Collection

from remote_inference.core.contract.contract import Contract
from remote_inference.core.exchange import in_namespace
from remote_inference.nodes.clients.operator_client import POLL_S, ROBOT_NODE, OperatorClient
from remote_inference.nodes.graph import full_name

NAMES_S = 0.5  # an endpoint may be known before the name of its node is


def find_rivals(client: OperatorClient, namespace: str, contract: Contract, listen_s: float) -> list[str]:
    """Return who commands a robot, one text each; listen for a time, or until there is somebody."""
    for _ in range(max(1, round(listen_s / POLL_S))):
        client.spin(POLL_S)
        if found := _look(client, namespace, contract):
            client.spin(NAMES_S)
            return _look(client, namespace, contract) or found
    return []


def _look(client: OperatorClient, namespace: str, contract: Contract) -> list[str]:
    topics: Collection[str] = [in_namespace(namespace, sink.topic) for sink in contract.topic_commands]
    found = {
        f"{full_name(endpoint)} publishes {topic}"
        for topic in topics
        for endpoint in client.node.get_publishers_info_by_topic(topic)
    }
    node = in_namespace(namespace, ROBOT_NODE)
    if (namespace or "/") in client.find_robots():
        found.add(f"{node} is running")
    return sorted(found)
