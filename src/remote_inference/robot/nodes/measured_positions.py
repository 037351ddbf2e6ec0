# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the arm is, for a node that rarely asks: the newest joint messages are kept as bytes until then."""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.controller_stop import Measured
from remote_inference.base.wire.arrays import WireError, read_message
from remote_inference.base.wire.qos import JOINTS_QOS
from remote_inference.base.wire.sensors.content_time import ContentClock, stamp_ns
from remote_inference.base.wire.sensors.joint_merge import MOST_DRIVERS
from remote_inference.robot.pose_geometry import ActionMasks
from remote_inference.robot.safety.measurement_gate import Belief, MeasurementGate

MAX_AGE_S = 0.5
KEPT_S = 1.2  # a position counts for MAX_AGE_S, and is trusted after others of half a second before it
KEPT = 2000  # messages of a topic at most: several drivers may each publish a part of the joints
SPACING_NS = 10_000_000  # between two messages of a driver that are judged, if they say the same ...
SAME = 0.03  # ... to within this [rad, m], which a hand moves a joint in the meantime


class MeasuredPositions:
    """The positions of the joints that trajectory controllers move; nothing is heard for any others."""

    def __init__(self, node: Node, contract: Contract) -> None:
        self._names = contract.actions.names
        self._topics: dict[str, _Topic] = {}
        if not any(sink.interface.takes_horizon for sink in contract.commands):
            return
        gate = MeasurementGate(contract.actions, ActionMasks.of(contract.actions), contract.period_s)
        for measurement in contract.measurements:
            source = measurement.source
            if source.is_joints:  # poses are measured by others, and no trajectory controller takes them
                named = zip(source.joints, measurement.actions, strict=True)
                places = {joint: self._names.index(action) for joint, action in named if action}
                topic = self._topics.setdefault(source.topic, _Topic(source.topic, gate, len(self._names)))
                topic.places.update(places)
        for name, topic in self._topics.items():
            node.create_subscription(JointState, name, topic.keep, JOINTS_QOS, raw=True)

    def fresh(self) -> dict[str, Measured]:
        """Return by action where it is believed to be, if it was measured there within MAX_AGE_S.

        Measurements that are doubted take the place of none: a hold of them would throw the arm there, and
        nobody is left to bound the step.
        """
        found = {}
        for topic in self._topics.values():
            belief = topic.judge()
            now_ns = time.monotonic_ns()
            for place in topic.places.values():
                age_ns = now_ns - int(belief.at_ns[place])
                if not math.isnan(belief.position[place]) and age_ns <= MAX_AGE_S * 1e9:
                    found[self._names[place]] = Measured(float(belief.position[place]), max(0, age_ns))
        return found


@dataclass(frozen=True)
class _Content:
    """What a message says: positions by place of the action, its content's time and its stamp [ns]."""

    said: dict[int, float]
    time_ns: int
    stamp_ns: int

    def repeats(self, other: _Content) -> bool:
        """Return whether it tells nothing that an earlier one did not tell a moment ago."""
        if self.time_ns - other.time_ns >= SPACING_NS or self.said.keys() != other.said.keys():
            return False
        return all(abs(position - other.said[place]) <= SAME for place, position in self.said.items())


@dataclass
class _Driver:
    """One of those that publish on a topic, known by which joints its messages have."""

    clock: ContentClock = field(default_factory=ContentClock)
    judged: _Content | None = None  # the last one that was
    skipped: _Content | None = None  # the newest one, if it was not judged


class _Topic:
    """The joints of one topic: its messages since the last question, and what is believed by then."""

    def __init__(self, name: str, gate: MeasurementGate, action_dim: int) -> None:
        self.places: dict[str, int] = {}
        """Places of the actions by joint."""
        self._name = name
        self._gate = gate
        self._action_dim = action_dim
        self._messages: deque[tuple[int, bytes]] = deque()  # with their arrival [ns]
        self._begin_anew()

    def keep(self, data: bytes) -> None:
        """Keep a message, as it came."""
        now_ns = time.monotonic_ns()
        self._messages.append((now_ns, data))
        while len(self._messages) > KEPT or now_ns - self._messages[0][0] > KEPT_S * 1e9:
            self._messages.popleft()
            self._has_forgotten = True

    def judge(self) -> Belief:
        """Return what is believed after the messages that are kept, and forget those."""
        if self._has_forgotten:  # nobody knows what happened meanwhile
            self._begin_anew()
        while self._messages:
            arrival_ns, data = self._messages.popleft()
            try:
                message = read_message(data, JointState, self._name)
            except WireError:  # at a stop, each joint that can be read counts
                continue
            self._take(message, arrival_ns)
        skipped = [driver.skipped for driver in self._drivers.values() if driver.skipped is not None]
        for content in sorted(skipped, key=lambda one: one.time_ns):
            self._believe(content)
        for driver in self._drivers.values():
            driver.skipped = None
        return self._belief

    def _begin_anew(self) -> None:
        self._has_forgotten = False
        self._drivers: OrderedDict[frozenset[str], _Driver] = OrderedDict()
        self._belief = Belief.none(self._action_dim)

    def _take(self, message: JointState, arrival_ns: int) -> None:
        if len(message.name) != len(message.position):  # whose positions they are, nobody knows
            return
        driver = self._drivers.setdefault(names := frozenset(message.name), _Driver())
        self._drivers.move_to_end(names)
        if len(self._drivers) > MOST_DRIVERS:
            self._drivers.popitem(last=False)
        content_ns = driver.clock.content_ns(stamp_ns(message), arrival_ns)
        if content_ns is None:
            return
        said = {
            self.places[joint]: position
            for joint, position in zip(message.name, message.position, strict=True)
            if joint in self.places and math.isfinite(position)
        }
        content = _Content(said, content_ns, stamp_ns(message))
        if driver.judged is not None and content.repeats(driver.judged):
            driver.skipped = content
            return
        driver.judged, driver.skipped = content, None
        self._believe(content)

    def _believe(self, content: _Content) -> None:
        measured = np.full(self._action_dim, np.nan)
        measured[list(content.said)] = list(content.said.values())
        times_ns = np.full(self._action_dim, content.time_ns)
        stamps_ns = np.full(self._action_dim, content.stamp_ns)
        self._belief = self._gate.judge(self._belief, measured, times_ns, stamps_ns, None, by_hand=True)
