# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Collects the facts on topics that the doctor judges: from the ROS graph, and by subscribing for a while."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from rclpy.qos import DurabilityPolicy
from sensor_msgs.msg import JointState

from remote_inference.base.clients.operator_client import OperatorClient
from remote_inference.base.nodes.graph import UNKNOWN_NODE, full_name
from remote_inference.base.wire import WireError, message_class
from remote_inference.base.wire.arrays import read_message
from remote_inference.base.wire.qos import JOINTS_QOS, SENSOR_QOS
from remote_inference.base.wire.sensors.content_time import stamp_reader
from remote_inference.base.wire.sensors.joint_merge import JointDrivers, Need
from remote_inference.tools.deployment.doctor.findings import TopicFacts

LISTEN_S = 2.0  # for the rates
QUIET_S = 1.0  # without a new endpoint, before they are measured


class TopicProbe:
    """Collects facts on topics: of some the endpoints alone, of others also the messages."""

    def __init__(self, ros: OperatorClient, own_name: str) -> None:
        """own_name: of the client's node, which is no subscriber that matters."""
        self._ros = ros
        self._own_name = own_name
        self._listeners: dict[str, _Listener] = {}
        self._resting: set[str] = set()
        self._watched: list[str] = []

    def listen(
        self, name: str, type_name: str, *, needs: Collection[Need] = (), may_rest: bool = False
    ) -> None:
        """Subscribe to a topic, unless that is done already.

        needs: what is read of its joints. may_rest: a publisher need not send anything.
        """
        if name in self._listeners:
            return
        with suppress(WireError):  # nobody can subscribe to a type that is not installed
            listener = self._listeners[name] = _Listener(message_class(type_name), needs)
            qos = JOINTS_QOS if listener.kind is JointState else SENSOR_QOS
            self._ros.node.create_subscription(listener.kind, name, listener.receive, qos, raw=True)
        self._watched.append(name)
        if may_rest:
            self._resting.add(name)

    def watch(self, name: str) -> None:
        """Collect the endpoints of a topic alone."""
        self._watched.append(name)

    def collect(self, timeout_s: float) -> dict[str, TopicFacts]:
        """Return the facts by topic, once each that is published has sent a message, or after the timeout."""
        self._settle(timeout_s)  # a driver that is discovered late is no slow one
        for listener in self._listeners.values():
            listener.reset()
        begun_s = time.monotonic()
        if self._listeners:
            self._ros.spin(LISTEN_S)
        listened_s = time.monotonic() - begun_s
        types = dict(self._ros.node.get_topic_names_and_types())
        return {name: self._facts(name, types.get(name, ()), listened_s) for name in self._watched}

    def _settle(self, timeout_s: float) -> None:
        node = self._ros.node
        seen: dict[str, tuple[int, int]] = {}
        seen_s = time.monotonic()  # since then no other endpoint

        def is_known() -> bool:
            nonlocal seen, seen_s
            counts = {n: (node.count_publishers(n), node.count_subscribers(n)) for n in self._watched}
            if counts != seen:
                seen, seen_s = counts, time.monotonic()
            published = {name for name, (publishers, _) in counts.items() if publishers}
            received = all(
                self._listeners[name].count for name in published & self._listeners.keys() - self._resting
            )
            found = {name for name, count in counts.items() if any(count)}
            return received and time.monotonic() - seen_s >= QUIET_S and self._all_named(found)

        self._ros.spin_until(is_known, timeout_s)

    def _all_named(self, names: Collection[str]) -> bool:
        """Return whether the nodes of topics are known by name, which may be later than their endpoints."""
        node = self._ros.node
        return not any(
            UNKNOWN_NODE in endpoint.node_name
            for name in names
            for find in (node.get_publishers_info_by_topic, node.get_subscriptions_info_by_topic)
            for endpoint in find(name)
        )

    def _facts(self, name: str, types: Collection[str], listened_s: float) -> TopicFacts:
        publishers = self._ros.node.get_publishers_info_by_topic(name)
        subscribers = [
            info
            for info in self._ros.node.get_subscriptions_info_by_topic(name)
            if info.node_name != self._own_name
        ]
        endpoints = [*publishers, *subscribers]
        latched = [s for s in subscribers if s.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL]
        received = self._listeners[name].facts(listened_s) if name in self._listeners else {}
        return TopicFacts(
            types=tuple(sorted({info.topic_type for info in endpoints} or set(types))),
            publishers=names_of(publishers),
            subscribers=names_of(subscribers),
            latched_subscribers=names_of(latched),
            **received,
        )


class _Listener:
    """The messages of one topic since `reset`."""

    def __init__(self, kind: Any, needs: Collection[Need]) -> None:
        self.kind = kind
        self._needs = needs
        self._read_stamp = stamp_reader(kind)
        self.reset()

    def reset(self) -> None:
        self.count = 0
        self._first = self._last = b""
        self._arrival_s = 0.0  # of the last message, by the wall clock
        self._drivers = JointDrivers(self._needs)
        self._unreadable = False

    def receive(self, data: bytes) -> None:
        self.count += 1
        self._first, self._last, self._arrival_s = self._first or data, data, time.time()
        if self.kind is JointState:
            joints = self._read(data)
            if joints is not None:
                self._drivers.take(joints, time.monotonic_ns())

    def _read(self, data: bytes) -> Any:
        try:
            return read_message(data, self.kind, "a message")
        except WireError:
            self._unreadable = True
            return None

    def facts(self, listened_s: float) -> dict[str, Any]:
        """Return what TopicFacts hold of messages."""
        ends = [self._read(data) if data else None for data in (self._first, self._last)]
        first_ns, last_ns = (self._read_stamp(message) if message is not None else 0 for message in ends)
        return {
            "rate_hz": self.count / listened_s,
            "joints": tuple(tuple(sorted(names)) for names in self._drivers.name_sets),
            "missing": self._drivers.missing if self.count else (),
            "unreadable": self._unreadable,
            "repeats": self.count > 1 and first_ns == last_ns != 0,
            **({"stamp_age_s": self._arrival_s - last_ns / 1e9} if last_ns else {}),
        }


def names_of(endpoints: Any) -> tuple[str, ...]:
    """Return the full names of endpoints' nodes, sorted."""
    return tuple(sorted(full_name(endpoint) for endpoint in endpoints))
