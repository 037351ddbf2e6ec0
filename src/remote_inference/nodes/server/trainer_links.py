# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server's end of weights over ROS: a service that opens links, and a topic each way for all of them."""

from __future__ import annotations

from functools import partial

from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.subscription import Subscription

from remote_inference.core.limits import MAX_NAME_LENGTH, shorten
from remote_inference.msg import WeightsFragment
from remote_inference.nodes.schedule import Schedule
from remote_inference.nodes.weights_messages import (
    OPEN_SERVICE,
    from_message,
    publish,
)
from remote_inference.srv import OpenWeightsLink
from remote_inference.weights.transports.fragments import PROTOCOL
from remote_inference.weights.transports.link_table import LinkTable
from remote_inference.wire.arrays import WireError
from remote_inference.wire.qos import (
    WEIGHTS_QOS,
    WEIGHTS_REPLIES_QOS,
    WEIGHTS_REPLIES_TOPIC,
    WEIGHTS_TOPIC,
)

NOBODY = "no weights are accepted here"
TEND_S = 0.5


class TrainerLinks:
    """The service `~/open_weights_link`, and the topics `~/weights` and `~/weights_replies` while needed.

    For the executor's thread alone; what `listen` returns is for any.
    """

    def __init__(self, node: Node, schedule: Schedule) -> None:
        self._node, self._logger = node, node.get_logger()
        self._table: LinkTable | None = None
        self._topics: tuple[Subscription, Publisher] | None = None
        node.create_service(OpenWeightsLink, f"~/{OPEN_SERVICE}", self._open)
        schedule.every(TEND_S, self._tend)

    def listen(self) -> LinkTable:
        """Let trainers open links, until the table that is returned is closed. One after the other."""
        self._destroy_topics()
        publisher = self._node.create_publisher(
            WeightsFragment, f"~/{WEIGHTS_REPLIES_TOPIC}", WEIGHTS_REPLIES_QOS
        )
        subscription = self._node.create_subscription(
            WeightsFragment, f"~/{WEIGHTS_TOPIC}", self._take, WEIGHTS_QOS
        )
        self._topics = subscription, publisher
        self._table = LinkTable(
            partial(publish, publisher, self._logger),
            tell=lambda why: self._logger.info(f"weights: a link has ended: {why}"),
        )
        return self._table

    def stop(self) -> None:
        """End all links, and open no more."""
        if self._table:
            self._table.close()
            self._table = None
        self._destroy_topics()

    def _open(
        self, request: OpenWeightsLink.Request, response: OpenWeightsLink.Response
    ) -> OpenWeightsLink.Response:
        response.protocol = PROTOCOL
        table = self._table
        response.message = table.open(request.protocol, request.link_id, request.trainer) if table else NOBODY
        response.accepted = not response.message
        outcome = f"refused: {response.message}" if response.message else "opened a link"
        self._logger.info(f"weights: {shorten(request.trainer, MAX_NAME_LENGTH)}: {outcome}")
        return response

    def _take(self, message: WeightsFragment) -> None:
        try:
            fragment = from_message(message)
        except WireError as error:
            self._logger.warning(f"weights: {error}")
            return
        if self._table:
            self._table.put(fragment)

    def _tend(self) -> None:
        if self._table:
            self._table.tend()
            if self._table.is_closed:
                self._table = None
                self._destroy_topics()

    def _destroy_topics(self) -> None:
        if self._topics:
            subscription, publisher = self._topics
            self._node.destroy_subscription(subscription)
            self._node.destroy_publisher(publisher)
            self._topics = None
