# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads a robot's control ticks from a bag, each with what the sensors had said by then.

Nothing is interpolated: a tick shows the newest message of each sensor, and where several drivers share a
topic the newest value of each joint, as the robot did. A bag is read once
from begin to end, and no more than a moment of it is in memory.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from remote_inference.core.contract.contract import Contract
from remote_inference.core.exchange import in_namespace
from remote_inference.core.robot.command import CommandSource
from remote_inference.core.robot.safety.state_machine import State
from remote_inference.recording.bags.bag import BagReader
from remote_inference.recording.bags.bag_error import BagError
from remote_inference.recording.export.control_tick import ControlTick
from remote_inference.recording.timeline.answers import Answer, RequestKey, request_key, stamped_ns
from remote_inference.recording.timeline.joints import EXECUTED_SUFFIX, FloatArray
from remote_inference.recording.timeline.newest import Newest
from remote_inference.wire.arrays import WireError
from remote_inference.wire.sensors import SensorError
from remote_inference.wire.sensors.joint_merge import JointDrivers, needs_of
from remote_inference.wire.sensors.state_readers import make_state_readers

_CHUNKS_REMEMBERED = 1_000  # a command executes one of the last few


class TickReader:
    """The control ticks of one robot in a bag.

    namespace: the robot's, without a slash at its end. images: let the ticks carry the cameras' messages.
    Raises BagError when the bag lacks a topic.
    """

    def __init__(self, bag: BagReader, namespace: str, contract: Contract, *, images: bool) -> None:
        self._bag = bag
        self._executed = namespace + EXECUTED_SUFFIX
        self._state = f"{namespace}/remote_inference/state"
        self._chunk = f"{namespace}/remote_inference/chunk"
        try:
            readers = make_state_readers(contract)
        except WireError as error:
            raise BagError(f"{bag.path}: contract: {error}") from error
        self._readers = [(in_namespace(namespace, topic), reader) for topic, reader in readers]
        joints = [source for source in contract.state if source.is_joints]
        self._drivers = {
            in_namespace(namespace, source.topic): JointDrivers(needs_of(joints, source.topic))
            for source in joints
        }
        self._cameras: Mapping[str, str] = (
            {name: in_namespace(namespace, source.topic) for name, source in contract.images.items()}
            if images
            else {}
        )
        self._require_topics()
        sensors = {topic for topic, _ in self._readers} | set(self._cameras.values())
        self._newest = {topic: Newest() for topic in (self._state, *sensors)}
        self._chunks: OrderedDict[RequestKey, Answer] = OrderedDict()

    def _require_topics(self) -> None:
        if missing := [topic for topic, _ in self._readers if topic not in self._bag.topics]:
            expected = "the contract's state: the robot's joints were not recorded"
            if any(topic not in self._drivers for topic in missing):
                expected = "the contract's state: these sensors were not recorded"
            raise BagError(f"{self._bag.path}: found no {', '.join(missing)}, expected {expected}")
        for name, topic in self._cameras.items():
            if topic not in self._bag.topics:
                raise BagError(
                    f"{self._bag.path}: found no {topic}, expected the contract's camera {name!r}: "
                    "it was not recorded; --no-images exports the rest"
                )

    def ticks(self) -> Iterator[ControlTick]:
        """Yield the ticks in order. Raises BagError for a damaged bag, and a message that does not fit."""
        wanted = [t for t in (self._executed, self._chunk, *self._newest) if t in self._bag.topics]
        heard: set[str] = set()
        for topic, at_ns, message in self._bag.messages(wanted):
            if topic == self._executed:
                yield self._tick(at_ns, message)
            elif topic == self._chunk:
                self._chunks[request_key(message)] = Answer.of(at_ns, message)
                if len(self._chunks) > _CHUNKS_REMEMBERED:
                    self._chunks.popitem(last=False)
            elif topic not in self._drivers:
                self._newest[topic].add(at_ns, message)
            else:
                heard.add(topic)
                if known := self._drivers[topic].take(message, at_ns):
                    self._newest[topic].add(at_ns, known[0])
        for topic in sorted(heard):
            if missing := self._drivers[topic].missing:
                found = f"{topic}: found no {', '.join(missing)} in any message"
                raise BagError(f"{self._bag.path}: {found}, expected every joint of the contract")

    def _tick(self, received_ns: int, message: Any) -> ControlTick:
        t_ns = stamped_ns(received_ns, message)
        state = self._newest[self._state].at(t_ns)
        answer = self._chunks.get(request_key(message))
        return ControlTick(
            t_ns=t_ns,
            tick=int(message.tick),
            episode_id=int(message.episode_id),
            task=state.task if state else "",
            client_state=State(state.state).name if state else "",
            paused=bool(state.paused) if state else True,
            source=CommandSource(message.source),
            action=np.array(message.action, np.float64) if len(message.action) else None,
            state=self._read_state(t_ns),
            images={name: self._newest[topic].at(t_ns) for name, topic in self._cameras.items()},
            interventions=tuple(message.interventions),
            session_id=message.session_id,
            seq_id=int(message.seq_id),
            step_index=int(message.step_index),
            row_fraction=float(getattr(message, "row_fraction", 0.0)),  # bags of older releases lack it
            age_s=float(message.action_age_s),
            queue_wait_ms=answer.queue_wait_ms if answer else math.nan,
            inference_ms=answer.inference_ms if answer else math.nan,
            policy_version=message.policy_version,
            shadow=bool(getattr(message, "shadow", False)),  # bags of older releases lack it
        )

    def _read_state(self, t_ns: int) -> FloatArray | None:
        messages = [self._newest[topic].at(t_ns) for topic, _ in self._readers]
        if any(message is None for message in messages):
            return None
        try:
            parts = [
                reader.read(message) for (_, reader), message in zip(self._readers, messages, strict=True)
            ]
        except SensorError as error:
            raise BagError(f"{self._bag.path}: {error}") from error
        return np.concatenate(parts)
