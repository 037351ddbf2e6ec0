# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Records what a replay of a robot's decisions needs, in the test's own process, and replays it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rclpy.serialization import deserialize_message
from std_msgs.msg import Float64MultiArray

from remote_inference.bags.decisions.comparison import Report
from remote_inference.bags.decisions.replay import replay_decisions
from remote_inference.bags.storage.bag_records import BagTopic
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.base.wire.qos import (
    CHUNK_TOPIC,
    DECISIONS_TOPIC,
    EXECUTED_QOS,
    EXECUTED_TOPIC,
    OBSERVATION_TOPIC,
)
from remote_inference.msg import ActionChunk, Decisions, ExecutedAction, Observation
from remote_inference.robot.decisions import DecisionDecoder
from support.nodes.rig import DEEP_LATCHED_QOS, DEEP_QOS, Rig

ENOUGH = 5  # ticks that are compared: a test may be short, and its process may discover the topics late


class DecisionTape:
    """Subscribes when it is made, before the robot's node starts; any number of nodes may follow."""

    def __init__(self, rig: Rig, *, commands: bool = True) -> None:
        """commands: whether nobody but the robot's node publishes on the controller's topic."""
        self._namespace = rig.namespace
        self._messages: list[tuple[int, str, bytes]] = []
        self._types: Mapping[str, type] = {
            DECISIONS_TOPIC: Decisions,
            EXECUTED_TOPIC: ExecutedAction,
            OBSERVATION_TOPIC: Observation,
            CHUNK_TOPIC: ActionChunk,
            **({"commands": Float64MultiArray} if commands else {}),
        }
        rig.run_on_executor(partial(self._subscribe, rig))

    def _subscribe(self, rig: Rig) -> None:
        for topic, kind in self._types.items():
            qos = {Decisions: DEEP_LATCHED_QOS, ExecutedAction: EXECUTED_QOS}.get(kind, DEEP_QOS)
            rig.node.create_subscription(kind, topic, partial(self._take, topic), qos, raw=True)

    def _take(self, topic: str, data: bytes) -> None:
        self._messages.append((time.time_ns(), topic, bytes(data)))

    def count(self, topic: str) -> int:
        """Return how many messages of a topic came."""
        return sum(of == topic for _, of, _ in self._messages)

    def calls(self, method: str) -> Iterator[tuple[Any, ...]]:
        """Yield the arguments of the calls of a method of the engine. Raises WireError for a lost message."""
        decoder = DecisionDecoder()
        for _, topic, data in self._messages:
            if topic == DECISIONS_TOPIC:
                for entry in decoder.decode(deserialize_message(data, Decisions).data):
                    if entry.method == method:
                        yield entry.arguments

    def flip_bit(self, topic: str, place: int) -> None:
        """Change one bit of the middle message of a topic."""
        found = [index for index, (_, of, _) in enumerate(self._messages) if of == topic]
        index = found[len(found) // 2]
        at_ns, _, data = self._messages[index]
        changed = bytearray(data)
        changed[place] ^= 1
        self._messages[index] = (at_ns, topic, bytes(changed))

    def check(self, folder: Path, *, of_first_node: bool = False, enough: int = ENOUGH) -> Report:
        """Require that what the robot did follows bit for bit from what it was told; return the replay.

        of_first_node: of the first of two nodes of one name, whose ticks are not told apart. enough: more
        ticks than these must be compared.
        """
        report = self.replay(folder, of_first_node=of_first_node)
        assert report.first is None, f"{report.differences} differences, the first: {report.first}"
        assert not report.problems, report.problems
        assert report.runs, "no journal"
        assert of_first_node or report.compared["ticks"] > enough, report
        return report

    def replay(self, folder: Path, *, of_first_node: bool = False) -> Report:
        """Write a bag into a folder, and replay it."""
        names = {topic: f"{self._namespace}/{topic}" for topic in self._types}
        topics = [
            BagTopic(names[topic], f"{kind.__module__.partition('.')[0]}/msg/{kind.__name__}")
            for topic, kind in self._types.items()
        ]
        with BagWriter(folder / "decisions_bag", topics) as bag:
            for at_ns, topic, data in self._of_first_node() if of_first_node else self._messages:
                bag.write(names[topic], at_ns, data)
        return replay_decisions(folder / "decisions_bag", None, {})

    def _of_first_node(self) -> Iterator[tuple[int, str, bytes]]:
        first = None
        for at_ns, topic, data in self._messages:
            if topic == DECISIONS_TOPIC:
                instance = deserialize_message(data, Decisions).instance
                first = instance if first is None else first
                if instance != first:
                    continue
            if topic != EXECUTED_TOPIC:
                yield at_ns, topic, data
