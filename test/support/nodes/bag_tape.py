# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Records a rig's topics into a bag, in the test's own process."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from sensor_msgs.msg import JointState

from remote_inference.bags.storage.bag_records import BagTopic
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.base.wire.qos import (
    CHUNK_TOPIC,
    EXECUTED_QOS,
    EXECUTED_TOPIC,
    OBSERVATION_TOPIC,
    SENSOR_QOS,
)
from remote_inference.msg import ActionChunk, ExecutedAction, Observation, ServerStatus
from support.nodes.rig import DEEP_LATCHED_QOS, DEEP_QOS, Rig

TYPES: Mapping[str, type] = {
    OBSERVATION_TOPIC: Observation,
    CHUNK_TOPIC: ActionChunk,
    EXECUTED_TOPIC: ExecutedAction,
    "/policy_server/status": ServerStatus,
}

QOS = {ServerStatus: DEEP_LATCHED_QOS, ExecutedAction: EXECUTED_QOS, JointState: SENSOR_QOS}


class BagTape:
    """Subscribes when it is made."""

    def __init__(self, rig: Rig, *, joints: bool = False, sensors: Mapping[str, type] | None = None) -> None:
        """joints: record the joints, too, as an export needs. sensors: others that it needs, by topic."""
        self._namespace = rig.namespace
        self._sensors = frozenset(sensors or ())
        self._types = {**TYPES, **({"joint_states": JointState} if joints else {}), **(sensors or {})}
        self._messages: list[tuple[int, str, bytes]] = []
        rig.run_on_executor(partial(self._subscribe, rig))

    def _subscribe(self, rig: Rig) -> None:
        for topic, kind in self._types.items():
            qos = SENSOR_QOS if topic in self._sensors else QOS.get(kind, DEEP_QOS)
            rig.node.create_subscription(kind, topic, partial(self._take, topic), qos, raw=True)

    def _take(self, topic: str, data: bytes) -> None:
        self._messages.append((time.time_ns(), topic, bytes(data)))

    def count(self, topic: str) -> int:
        """Return how many messages of a topic came."""
        return sum(of == topic for _, of, _ in self._messages)

    def write(self, path: Path, contract: Path) -> Path:
        """Write what came so far."""
        names = {
            topic: topic if topic.startswith("/") else f"{self._namespace}/{topic}" for topic in self._types
        }
        topics = [
            BagTopic(names[topic], f"{kind.__module__.partition('.')[0]}/msg/{kind.__name__}")
            for topic, kind in self._types.items()
        ]
        with BagWriter(path, topics, contract=contract.read_text()) as bag:
            for at_ns, topic, data in self._messages:
                bag.write(names[topic], at_ns, data)
        return path
