# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Publishes the engine's journal, from which a recorded run is replayed. For the worker's thread."""

from __future__ import annotations

import random
import time

from rclpy.node import Node
from rclpy.publisher import Publisher
from std_msgs.msg import Header

from remote_inference.core.robot.journal import Journal
from remote_inference.msg import Decisions
from remote_inference.wire.arrays import bytes_field
from remote_inference.wire.decisions import DecisionEncoder
from remote_inference.wire.qos import DECISIONS_QOS, DECISIONS_TOPIC

PERIOD_S = 0.25
# Without a subscriber a message is larger, so that those which the middleware keeps for one reach back to the
# node's start for minutes.
LARGE = 32 * 1024  # [bytes]


class DecisionLog:
    """Encodes what the journal holds four times per second, and publishes it when somebody listens."""

    def __init__(self, node: Node, journal: Journal) -> None:
        self._clock = node.get_clock()
        self._journal = journal
        self._encoder = DecisionEncoder()
        self._instance = random.getrandbits(64)
        self._next_s = 0.0
        self._data = bytearray()  # encoded, not published yet
        self._first = self._count = 0  # entries of it
        self.publisher: Publisher = node.create_publisher(Decisions, DECISIONS_TOPIC, DECISIONS_QOS)

    def publish(self) -> None:
        """Publish what is due."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + PERIOD_S
        self._encode()
        if len(self._data) >= LARGE or self.publisher.get_subscription_count():
            self._send()

    def finish(self) -> None:
        """Publish the rest."""
        self._encode()
        self._send()

    def _encode(self) -> None:
        first, entries = self._journal.take()
        if first != self._first + self._count:  # some were dropped: a message holds none beside a gap
            self._send()
            self._first = first
        self._data += self._encoder.encode(entries)
        self._count += len(entries)

    def _send(self) -> None:
        if not self._count:
            return
        stamp = self._clock.now().to_msg()
        message = Decisions(
            header=Header(stamp=stamp),
            instance=self._instance,
            first=self._first,
            count=self._count,
            data=bytes_field(self._encoder.seal(self._data)),
        )
        self.publisher.publish(message)
        self._first, self._count = self._first + self._count, 0
        self._data.clear()
