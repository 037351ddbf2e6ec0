# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds another running server with a server's name: robots could not distinguish the two."""

from __future__ import annotations

import time

import rclpy
from rclpy.node import Node

from remote_inference.base.nodes.executors import add_node, make_executor
from remote_inference.base.nodes.graph import UNKNOWN_NODE, full_name
from remote_inference.base.nodes.runtime import is_stopping
from remote_inference.base.wire.qos import LATCHED_QOS
from remote_inference.msg import ServerStatus

DISCOVERY_S = 1.0  # what a server spends on the search when it is alone
GHOST_S = 3.0  # and while the graph lists one of its name, which may have been killed or may be about to end
POLL_S = 0.05


def find_duplicate_server(node: Node) -> str:
    """Return the instance id of another running server of the node's name, or an empty string.

    Call it before the node publishes its own status. A running server's status is latched, and arrives even
    while it loads a policy. A killed server publishes none, and one that ends leaves the graph: neither
    blocks its successor.
    """
    topic = node.resolve_topic_name("~/status")
    name = node.get_fully_qualified_name()
    probe = rclpy.create_node(
        f"{node.get_name()}_probe",
        namespace=node.get_namespace(),
        context=node.context,
        use_global_arguments=False,
        enable_rosout=False,
        start_parameter_services=False,
    )
    found: list[ServerStatus] = []
    probe.create_subscription(ServerStatus, topic, found.append, LATCHED_QOS)
    executor, _ = make_executor("single", node.context)
    add_node(executor, probe)
    begin_s = time.monotonic()
    try:
        while not is_stopping():
            executor.spin_once(timeout_sec=POLL_S)
            publishers = probe.get_publishers_info_by_topic(topic)
            # One whose node is not known yet may have our name: wait for its status.
            listed = any(
                publisher.node_name == UNKNOWN_NODE or full_name(publisher) == name
                for publisher in publishers
            )
            if time.monotonic() - begin_s >= (GHOST_S if listed else DISCOVERY_S):
                return found[-1].instance_id if listed and found else ""
        return ""
    finally:
        executor.shutdown(timeout_sec=1.0)
        probe.destroy_node()
