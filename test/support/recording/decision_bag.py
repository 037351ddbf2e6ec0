# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bags of simulated robots, as their nodes and a recorder would have made them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from remote_inference.bags.storage.bag_records import BagTopic
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.base.exchange import Chunk
from remote_inference.base.wire.arrays import bytes_field
from remote_inference.base.wire.chunk import chunk_to_message
from remote_inference.base.wire.commands import make_command_writer
from remote_inference.base.wire.observation import ReadyImage, observation_to_message
from remote_inference.msg import Decisions
from remote_inference.robot.decisions import DecisionEncoder
from remote_inference.robot.journal import Entry
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.nodes.telemetry import executed_message
from remote_inference.robot.safety.effects import SendRequest
from support.robot.simulation import World

NS = "/robot_1"
OWN = f"{NS}/remote_inference"
BATCH = 50  # entries
Message = tuple[int, str, Any]


class SimulatedRecorder:
    """Takes what a recorder of a simulated robot would have received, piece by piece."""

    def __init__(
        self,
        world: World,
        images: Callable[[], Sequence[ReadyImage]] = tuple,
        *,
        joints: bool = False,
        instance: int = 7,
    ) -> None:
        """images: those of the next observation. joints: whether the arm's joint states are recorded.

        instance: of the node.
        """
        self._world, self._images, self._joints = world, images, joints
        self._journal = SimulatedJournal(instance)
        self._ticks = self._effects = 0  # taken so far

    def take(self) -> list[Message]:
        """Return the messages since the last call: time [ns], topic and message."""
        world = self._world
        _, entries = world.engine.journal.take()
        found: list[Message] = list(self._journal.messages(entries))
        for now_ns, tick in world.ticks[self._ticks :]:
            found += self._tick_messages(now_ns, tick)
        effects = world.effects[self._effects :]
        self._effects += len(effects)
        for now_ns, effect in effects:
            if isinstance(effect, SendRequest):
                state = world.position.astype(np.float32)
                message = observation_to_message(effect.request, state, self._images(), Time())
                found.append((now_ns, f"{OWN}/observation", message))
        for entry in entries:
            if entry.method == "take_chunk" and is_writable(entry.arguments[0]):
                message = chunk_to_message(entry.arguments[0], Time())
                found.append((entry.arguments[1], f"{OWN}/chunk", message))
            elif entry.method == "take_sensors" and self._joints:
                _, position, now_ns, *_ = entry.arguments
                message = JointState(name=list(world.contract.actions.names), position=position.tolist())
                found.append((now_ns, f"{NS}/joint_states", message))
        return sorted(found, key=lambda message: message[0])

    def _tick_messages(self, now_ns: int, tick: Tick) -> Iterator[Message]:
        contract, index = self._world.contract, self._ticks
        self._ticks += 1
        names = contract.actions.names
        yield now_ns, f"{OWN}/executed", executed_message(tick, index, now_ns, 0, names, queue_length=0)
        for sink in contract.commands if tick.horizon is not None else ():
            writer = make_command_writer(sink, contract)
            if tick.reaches(writer.kind, sink.destination):
                yield now_ns, f"{NS}/{sink.topic}", writer.message(tick.horizon, Time(), tick.late_ns)


def messages_of(world: World) -> list[Message]:
    """Return what a recorder would have received in the whole run."""
    return SimulatedRecorder(world).take()


def is_writable(chunk: Chunk) -> bool:
    return chunk.model.ndim == 2 and chunk.model.shape == chunk.robot.shape


class SimulatedJournal:
    """Makes a journal's messages, each a while after the entries that it holds."""

    def __init__(self, instance: int) -> None:
        self._instance, self._encoder = instance, DecisionEncoder()
        self._first = self._now_ns = 0

    def messages(self, entries: Iterable[Entry]) -> Iterator[Message]:
        waiting = list(entries)
        while waiting:
            batch, waiting = waiting[:BATCH], waiting[BATCH:]
            times = [argument for entry in batch for argument in entry.arguments if type(argument) is int]
            self._now_ns = max([self._now_ns, *times])
            data = bytes_field(self._encoder.seal(self._encoder.encode(batch)))
            message = Decisions(instance=self._instance, first=self._first, count=len(batch), data=data)
            yield self._now_ns + 1, f"{OWN}/decisions", message
            self._first += len(batch)


def write(
    path: Path,
    messages: Iterable[Message],
    change: Callable[[str, int, bytes], bytes | None] = lambda topic, number, data: data,
) -> Path:
    """Write a bag. change: returns other bytes for a topic's message of a number, or None to leave it out."""
    found = list(messages)
    topics = {topic: message for _, topic, message in found}
    kinds = {t: m.__class__.__module__.split(".")[0] + "/msg/" + type(m).__name__ for t, m in topics.items()}
    numbers = dict.fromkeys(kinds, 0)
    with BagWriter(path, [BagTopic(topic, kind) for topic, kind in kinds.items()]) as bag:
        for at_ns, topic, message in found:
            data = change(topic, numbers[topic], serialize_message(message))
            numbers[topic] += 1
            if data is not None:
                bag.write(topic, at_ns, data)
    return path
