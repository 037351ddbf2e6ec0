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
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from remote_inference.core.contract.contract import Contract
from remote_inference.core.documents.problems import show_value
from remote_inference.core.exchange import in_namespace
from remote_inference.recording.bags.bag import BagReader
from remote_inference.recording.bags.bag_error import BagError
from remote_inference.recording.export.control_tick import ControlTick
from remote_inference.recording.timeline.answers import Answer, RequestKey, request_key
from remote_inference.recording.timeline.joint_records import EXECUTED_SUFFIX, FloatArray
from remote_inference.recording.timeline.newest import Newest
from remote_inference.recording.timeline.recorded_names import state_name
from remote_inference.recording.timeline.tick_times import TickOrder, TickTimes, find_offset
from remote_inference.wire.arrays import WireError
from remote_inference.wire.sensors import SensorError
from remote_inference.wire.sensors.joint_merge import JointDrivers, needs_of
from remote_inference.wire.sensors.state_readers import make_state_readers

_REMEMBERED = 1_000  # requests; a command executes the chunk of one of the last few
_TICKS_OF_OFFSET = 300  # by which clocks are compared: seconds


Told = TypeVar("Told")


@dataclass(frozen=True)
class _Standing:
    """What the robot's node had said of itself."""

    task: str
    state: str
    paused: bool


def _remember(of_requests: OrderedDict[RequestKey, Told], key: RequestKey, told: Told) -> None:
    of_requests[key] = told
    if len(of_requests) > _REMEMBERED:
        of_requests.popitem(last=False)


class TickReader:
    """The control ticks of one robot in a bag.

    namespace: the robot's, without a slash at its end. images: let the ticks carry the cameras' messages.
    Raises BagError when the bag lacks a topic, or has one of another type than the contract says.
    """

    def __init__(self, bag: BagReader, namespace: str, contract: Contract, *, images: bool) -> None:
        self._bag = bag
        self._executed = namespace + EXECUTED_SUFFIX
        self._state = f"{namespace}/remote_inference/state"
        self._chunk = f"{namespace}/remote_inference/chunk"
        self._observation = f"{namespace}/remote_inference/observation"
        self._names = contract.actions.names
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
        for source in (*contract.state, *(contract.images.values() if images else ())):
            self._require_type(in_namespace(namespace, source.topic), source.type)
        sensors = {topic for topic, _ in self._readers} | set(self._cameras.values())
        self._newest = {topic: Newest() for topic in (self._state, *sensors)}
        self._chunks: OrderedDict[RequestKey, Answer] = OrderedDict()
        self._tasks: OrderedDict[RequestKey, str] = OrderedDict()  # of requests
        self._heard: set[str] = set()  # topics of joints
        self._times, self._order = TickTimes(self._find_offset()), TickOrder()
        self._unreadable = 0  # ticks whose state cannot be read
        self._first_unreadable = ""

    def _find_offset(self) -> int:
        """Return by how much the recorder's clock is ahead of the robot's [ns]."""
        if self._executed not in self._bag.topics:
            return 0
        first = islice(self._bag.messages([self._executed]), _TICKS_OF_OFFSET)
        with self._bag.expecting(self._executed):
            return find_offset((received_ns, message) for _, received_ns, message in first)

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

    def _require_type(self, topic: str, expected: str) -> None:
        found = self._bag.topics[topic].msgtype
        if found != expected:
            raise BagError(
                f"{self._bag.path}: {topic}: found {found}, expected {expected}, as the contract says"
            )

    @property
    def tells_pauses(self) -> bool:
        """Whether the bag has the states of the robot's node."""
        return self._state in self._bag.topics

    @property
    def notes(self) -> list[str]:
        """What a person must know of the ticks, in words: what cannot be read, a clock that was set."""
        times, notes = self._times, []
        if self._unreadable:
            notes.append(
                f"{self._bag.path}: {self._unreadable} ticks have no state, the first one for: "
                f"{self._first_unreadable}"
            )
        if times.offset_ns:
            notes.append(
                f"{self._bag.path}: the robot's clock is about {-times.offset_ns * 1e-9:+.2f} s from the "
                "recorder's, by which the sensors are timed: ticks are, too"
            )
        if times.jump_ns is not None:
            at_s = (times.jumped_at_ns - self._bag.start_ns) * 1e-9
            notes.append(
                f"{self._bag.path}: the robot's clock jumped by {times.jump_ns * 1e-9:+.3f} s at {at_s:.1f} "
                "s: from there on the time of a tick is that of its reception"
            )
        return notes

    def ticks(self) -> Iterator[ControlTick]:
        """Yield the ticks in order. Raises BagError for a damaged bag, and a message that does not fit."""
        told = (self._executed, self._chunk, self._observation, *self._newest)
        wanted = [topic for topic in told if topic in self._bag.topics]
        for topic, at_ns, message in self._bag.messages(wanted):
            tick: ControlTick | None = None
            with self._bag.expecting(topic):
                if topic == self._executed:
                    tick = self._tick(at_ns, message)
                else:
                    self._take(topic, at_ns, message)
            if tick is not None:
                yield tick
        for topic in sorted(self._heard):
            if missing := self._drivers[topic].missing:
                found = f"{topic}: found no {', '.join(missing)} in any message"
                raise BagError(f"{self._bag.path}: {found}, expected every joint of the contract")

    def _take(self, topic: str, at_ns: int, message: Any) -> None:
        """Take a message other than a tick."""
        if topic == self._state:
            standing = _Standing(message.task, state_name(message), bool(message.paused))
            self._newest[topic].add(at_ns, standing)
        elif topic == self._chunk:
            _remember(self._chunks, request_key(message), Answer.of(at_ns, message))
        elif topic == self._observation:
            _remember(self._tasks, request_key(message), message.task)
        elif topic not in self._drivers:
            self._newest[topic].add(at_ns, message)
        else:
            self._heard.add(topic)
            if known := self._drivers[topic].take(message, at_ns):
                self._newest[topic].add(at_ns, known[0])

    def _tick(self, received_ns: int, message: Any) -> ControlTick:
        if self._order.is_mixed_with(int(message.tick)):
            raise BagError(
                f"{self._bag.path}: {self._executed}: control tick {message.tick} is among ticks of another "
                "time, expected them in order: a clock was set back while it was recorded; `remote-inference "
                "verify` says where"
            )
        if len(message.action) and (names := tuple(message.joint_names)) != self._names:
            raise BagError(
                f"{self._bag.path}: {self._executed}: tick {message.tick}: found actions "
                f"{show_value(names)}, expected those of the contract in its order: {', '.join(self._names)}"
            )
        t_ns = self._times.at(received_ns, message)
        state: _Standing | None = self._newest[self._state].at(t_ns)
        answer = self._chunks.get(request_key(message))
        return ControlTick(
            t_ns=t_ns,
            tick=int(message.tick),
            episode_id=int(message.episode_id),
            # The policy was asked for this task; the node's state is told twice a second.
            task=self._tasks.get(request_key(message)) or (state.task if state else ""),
            client_state=state.state if state else "",
            paused=state.paused if state else None,
            source=int(message.source),
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
        except SensorError as error:  # the robot passed over it, too
            self._unreadable += 1
            self._first_unreadable = self._first_unreadable or str(error)
            return None
        return np.concatenate(parts)
