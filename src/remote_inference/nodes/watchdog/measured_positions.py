# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the arm is, for a node that rarely asks: the newest joint messages are kept as bytes until then."""

from __future__ import annotations

import math
import time
from collections import deque
from functools import partial

from rclpy.node import Node
from sensor_msgs.msg import JointState

from remote_inference.core.contract.contract import Contract
from remote_inference.wire import WireError, read_message
from remote_inference.wire.qos import JOINTS_QOS

MAX_AGE_S = 0.5
KEPT = 2000  # messages of a topic: several drivers may each publish a part of the joints, some very often


class MeasuredPositions:
    """The positions of the joints that trajectory controllers move; nothing is heard for any others."""

    def __init__(self, node: Node, contract: Contract) -> None:
        self._actions: dict[str, dict[str, str]] = {}  # action by joint, by topic
        self._messages: dict[str, deque[tuple[float, bytes]]] = {}  # arrival [s]
        if not any(sink.interface.takes_horizon for sink in contract.commands):
            return
        for measurement in contract.measurements:
            source = measurement.source
            if source.is_joints:  # poses are measured by others, and no trajectory controller takes them
                named = zip(source.joints, measurement.actions, strict=True)
                joints = {joint: action for joint, action in named if action}
                self._actions.setdefault(source.topic, {}).update(joints)
        for topic in self._actions:
            self._messages[topic] = deque(maxlen=KEPT)
            node.create_subscription(JointState, topic, partial(self._keep, topic), JOINTS_QOS, raw=True)

    def fresh(self) -> dict[str, float]:
        """Return the finite positions by action that arrived within MAX_AGE_S [unit of the action]."""
        oldest_s = time.monotonic() - MAX_AGE_S
        positions: dict[str, float] = {}
        for topic, messages in self._messages.items():
            wanted = dict(self._actions[topic])  # joints that are not found yet
            for arrival_s, data in reversed(messages):
                if arrival_s < oldest_s or not wanted:
                    break
                try:
                    message = read_message(data, JointState, topic)
                except WireError:  # at a stop, each joint that can be read counts
                    continue
                for joint, position in zip(message.name, message.position, strict=False):
                    if joint in wanted and math.isfinite(position):
                        positions[wanted.pop(joint)] = position
        return positions

    def _keep(self, topic: str, data: bytes) -> None:
        self._messages[topic].append((time.monotonic(), data))
