# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether another live server has a server's name: robots could not tell the two apart."""

from __future__ import annotations

import time

import rclpy
from rclpy.node import Node

from remote_inference.msg import ServerStatus
from remote_inference.nodes.executors import add_node, make_executor
from remote_inference.nodes.graph import UNKNOWN_NODE, full_name
from remote_inference.nodes.runtime import is_stopping
from remote_inference.wire.qos import LATCHED_QOS

DISCOVERY_S = 1.0  # what a server spends on the search when it is alone
GHOST_S = 3.0  # and when the graph still lists one of its name, which may have been killed or be about to end
POLL_S = 0.05


def find_namesake(node: Node) -> str:
    """Return the instance of another live server of the node's name, or an empty string.

    Call it before the node publishes its own status. A live server's status is latched, and comes even while
    it loads a policy. What a killed one has left in the graph says nothing, and one that ends leaves the
    graph: neither keeps its successor out.
    """
    topic = node.resolve_topic_name("~/status")
    name = node.get_fully_qualified_name()
    lookout = rclpy.create_node(
        f"{node.get_name()}_lookout",
        namespace=node.get_namespace(),
        context=node.context,
        use_global_arguments=False,
        enable_rosout=False,
        start_parameter_services=False,
    )
    heard: list[str] = []

    def hear(status: ServerStatus) -> None:
        heard.append(status.instance_id)

    lookout.create_subscription(ServerStatus, topic, hear, LATCHED_QOS)
    executor, _ = make_executor("single", node.context)
    add_node(executor, lookout)
    begin_s = time.monotonic()
    try:
        while not is_stopping():
            executor.spin_once(timeout_sec=POLL_S)
            publishers = lookout.get_publishers_info_by_topic(topic)
            # One whose node is not known yet may be of our name: it is waited for, and heard.
            listed = any(
                publisher.node_name == UNKNOWN_NODE or full_name(publisher) == name
                for publisher in publishers
            )
            if time.monotonic() - begin_s >= (GHOST_S if listed else DISCOVERY_S):
                return heard[-1] if listed and heard else ""
        return ""
    finally:
        executor.shutdown(timeout_sec=1.0)
        lookout.destroy_node()
