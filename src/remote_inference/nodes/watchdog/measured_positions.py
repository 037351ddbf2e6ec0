# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the arm is, for a node that rarely asks: the newest joint messages are kept as bytes until then."""

from __future__ import annotations

import math
import time
from collections import deque
from functools import partial

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.node import Node
from sensor_msgs.msg import JointState

from remote_inference.core.contract.contract import Contract
from remote_inference.core.robot.action_masks import ActionMasks
from remote_inference.core.robot.safety.measurement_gate import MeasurementGate
from remote_inference.wire import WireError, read_message
from remote_inference.wire.qos import JOINTS_QOS

MAX_AGE_S = 0.5
KEPT = 2000  # messages of a topic: several drivers may each publish a part of the joints, some very often


class MeasuredPositions:
    """The positions of the joints that trajectory controllers move; nothing is heard for any others."""

    def __init__(self, node: Node, contract: Contract) -> None:
        self._actions: dict[str, dict[str, str]] = {}  # action by joint, by topic
        self._messages: dict[str, deque[tuple[float, bytes]]] = {}  # arrival [s]
        self._names = contract.actions.names
        self._gate = MeasurementGate(contract.actions, ActionMasks.of(contract.actions), contract.period_s)
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
        """Return the positions by action that were measured within MAX_AGE_S [unit of the action].

        Not one that cannot be: a hold of it would throw the arm there, and nobody is left to bound the step.
        """
        positions: dict[str, float] = {}
        for topic in self._messages:
            positions |= self._find_fresh(topic)
        measured = np.array([positions.get(name, np.nan) for name in self._names])
        impossible = self._gate.find_impossible(measured)
        return {name: at for name, at in positions.items() if not impossible[self._names.index(name)]}

    def _find_fresh(self, topic: str) -> dict[str, float]:
        """Return the finite positions by action that a topic's drivers have measured lately.

        A driver is known by its joints. One that hangs may repeat its last message: of those with one stamp
        only the first says when it measured.
        """
        oldest_s = time.monotonic() - MAX_AGE_S
        wanted = dict(self._actions[topic])  # joints that are not found yet
        positions: dict[str, float] = {}

        def take(message: JointState) -> None:
            if len(message.name) != len(message.position):  # whose positions they are, nobody knows
                return
            for joint, position in zip(message.name, message.position, strict=True):
                if joint in wanted and math.isfinite(position):
                    positions[wanted.pop(joint)] = position

        unsure: dict[tuple[str, ...], JointState] = {}  # by driver: it may be a repetition of an older one
        sure: set[tuple[str, ...]] = set()  # drivers that do not repeat themselves
        for arrival_s, data in reversed(self._messages[topic]):
            is_fresh = arrival_s >= oldest_s
            if not wanted or not (is_fresh or unsure):
                break
            try:
                message = read_message(data, JointState, topic)
            except WireError:  # at a stop, each joint that can be read counts
                continue
            driver, stamp = tuple(message.name), message.header.stamp
            newer = unsure.pop(driver, None)
            if newer is not None and newer.header.stamp != stamp:
                take(newer)
                sure.add(driver)
            if is_fresh and (driver in sure or stamp == Time()):
                take(message)
            elif is_fresh:
                unsure[driver] = newer or message
        for message in unsure.values():
            take(message)
        return positions

    def _keep(self, topic: str, data: bytes) -> None:
        self._messages[topic].append((time.monotonic(), data))
