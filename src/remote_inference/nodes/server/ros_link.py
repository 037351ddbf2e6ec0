# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A session's two ROS endpoints: its robot's requests come by the one, and its chunks leave by the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from rclpy._rclpy_pybind11 import InvalidHandle
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.subscription import Subscription

from remote_inference.core.exchange import Chunk, SessionOffer, in_namespace
from remote_inference.msg import ActionChunk, Observation
from remote_inference.nodes.graph import identify_endpoints
from remote_inference.nodes.log_lines import about
from remote_inference.wire import chunk_to_message
from remote_inference.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, OBSERVATION_TOPIC


class RosLink:
    """The endpoints, and the robot's endpoints that were known when the session began.

    Made, asked and closed on the executor's thread, the only thread that may create and destroy entities.
    """

    def __init__(self, node: Node, offer: SessionOffer, deposit: Callable[[bytes], None]) -> None:
        """deposit: takes each serialized request."""
        self._node = node
        self._offer = offer
        # Without rclpy's default events, four per session: its executor compares them all for every message.
        # They only log an incompatible QoS, which the robot's endpoints log, too.
        with ExitStack() as undo:  # destroys the endpoints if a later step fails
            self._publisher = node.create_publisher(
                ActionChunk,
                in_namespace(offer.robot_namespace, CHUNK_TOPIC),
                EXCHANGE_QOS,
                event_callbacks=PublisherEventCallbacks(use_default_callbacks=False),
            )
            undo.callback(node.destroy_publisher, self._publisher)
            self._subscription: Subscription | None = node.create_subscription(
                Observation,
                in_namespace(offer.robot_namespace, OBSERVATION_TOPIC),
                deposit,
                EXCHANGE_QOS,
                raw=True,
                event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
            )
            undo.callback(node.destroy_subscription, self._subscription)
            self._robot_gids = find_robot_gids(node, offer)
            undo.pop_all()

    def send(self, chunk: Chunk) -> None:
        message = chunk_to_message(chunk, self._node.get_clock().now().to_msg())
        try:
            self._publisher.publish(message)
        except InvalidHandle:
            log = about(self._node.get_logger(), self._offer.robot_namespace, chunk.session_id)
            log.debug(f"session {chunk.session_id} closed before its chunk was sent")

    def is_present(self) -> bool:
        gids = find_robot_gids(self._node, self._offer)
        if not self._robot_gids:  # the session opened before discovery found them
            self._robot_gids = gids
        return bool(gids)

    def close(self, reason: str) -> None:  # noqa: ARG002  the robot sees that the endpoints are gone
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)
        self._node.destroy_publisher(self._publisher)
        # Its callback knows the session, which knows this link: in a circle they would keep the processors,
        # and what these have on a device, until the garbage collector comes by.
        self._subscription = None

    def is_alive(self) -> bool:
        """Return whether the process that opened the session is in the graph, besides one that asks now.

        Its silence says nothing: a paused robot sends no requests.
        """
        gids = find_robot_gids(self._node, self._offer)
        if len(gids) > 1:
            return True
        return len(self._robot_gids) == 1 and self._robot_gids <= gids


def find_robot_gids(node: Node, offer: SessionOffer) -> frozenset[bytes]:
    """Return the endpoints by which nodes of the robot's name publish observations."""
    topic = in_namespace(offer.robot_namespace, OBSERVATION_TOPIC)
    return frozenset(
        gid
        for name, gid in identify_endpoints(node.get_publishers_info_by_topic(topic))
        if name == offer.client
    )
