# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Turns bags into one data set: finds robot, contract and episodes, and hands the ticks to a format."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np

from remote_inference.bags.export.format import ControlTick, Format, Selection, one_per_row
from remote_inference.bags.storage.bag import BagReader, OnProgress, no_progress
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.timeline.messages import (
    Newest,
    RequestKey,
    TickOrder,
    TickTimes,
    find_offset,
    from_message,
    name_of,
    remember,
    request_key,
)
from remote_inference.bags.timeline.robot_bag import FloatArray, RobotBag, open_robot, require_contract
from remote_inference.bags.timeline.timeline import WITHOUT_ACTIONS
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.problems import show_value
from remote_inference.base.exchange import in_namespace
from remote_inference.base.wire.arrays import SensorError, WireError
from remote_inference.base.wire.sensors.joint_merge import JointDrivers, needs_of
from remote_inference.base.wire.sensors.state_readers import make_state_readers
from remote_inference.robot.safety.state_machine import State

# Reads a robot's control ticks from a bag, each with the newest sensor messages by then.
# Nothing is interpolated: a tick shows the newest message of each sensor, and where several drivers share a
# topic the newest value of each joint, as the robot did. A bag is read once, as a stream.
_REMEMBERED = 1_000  # requests; a command executes the chunk of one of the last few
_TICKS_OF_OFFSET = 300  # by which clocks are compared: seconds


class TickReader:
    """The control ticks of one robot in a bag.

    images: let the ticks carry the cameras' messages. Raises BagError without a contract, and when the bag
    lacks a topic or has one of another type than the contract says.
    """

    def __init__(self, robot: RobotBag, *, images: bool) -> None:
        self._bag = bag = robot.bag
        contract, namespace = robot.require_contract(), robot.namespace
        self._executed, self._state = robot.topic("executed"), robot.topic("state")
        self._chunk, self._observation = robot.topic("chunk"), robot.topic("observation")
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
        cameras = contract.images if images else {}
        self._cameras = {name: in_namespace(namespace, source.topic) for name, source in cameras.items()}
        self._require_topics()
        robot.recorded((*contract.state, *cameras.values()))
        sensors = {topic for topic, _ in self._readers} | set(self._cameras.values())
        self._newest = {topic: Newest() for topic in (self._state, *sensors)}
        self._served_ms: OrderedDict[RequestKey, tuple[float, float]] = OrderedDict()  # waited, inferred
        self._tasks: OrderedDict[RequestKey, str] = OrderedDict()  # of requests
        self._received: set[str] = set()  # topics of joints
        first = islice(bag.messages([self._executed]), _TICKS_OF_OFFSET)
        offset_ns = find_offset((received_ns, message) for _, received_ns, message in first)
        self._times, self._order = TickTimes(offset_ns), TickOrder()
        self._unreadable = 0  # ticks whose state cannot be read
        self._first_unreadable = ""

    def _require_topics(self) -> None:
        if missing := [topic for topic, _ in self._readers if topic not in self._bag.topics]:
            expected = "the contract's state: the robot's joints were not recorded"
            if any(topic not in self._drivers for topic in missing):
                expected = "the contract's state: these sensors were not recorded"
            raise BagError(f"{self._bag.path}: found no {', '.join(missing)}, expected {expected}")
        for name, topic in self._cameras.items():
            if topic not in self._bag.topics:
                found = f"{self._bag.path}: found no {topic}"
                expected = f"the contract's camera {name!r}: it was not recorded"
                raise BagError(f"{found}, expected {expected}; --no-images exports the rest")

    @property
    def notes(self) -> list[str]:
        """Warnings about the ticks, in words: what cannot be read, a clock that was set."""
        times, notes = self._times, []
        if self._unreadable:
            first = self._first_unreadable
            notes.append(f"{self._unreadable} ticks have no state, the first one for: {first}")
        if times.offset_ns:
            apart = f"the robot's clock is about {-times.offset_ns * 1e-9:+.2f} s from the recorder's"
            notes.append(f"{apart}, by which the sensors are timed: ticks are, too")
        if times.jump_ns is not None:
            at_s = self._bag.seconds(times.jumped_at_ns)
            jump = f"the robot's clock jumped by {times.jump_ns * 1e-9:+.3f} s at {at_s:.1f} s"
            notes.append(f"{jump}: from there on the time of a tick is that of its reception")
        return [f"{self._bag.path}: {note}" for note in notes]

    def ticks(self, on_progress: OnProgress = no_progress) -> Iterator[ControlTick]:
        """Yield the ticks in order. Raises BagError for a damaged bag, and a message that does not fit."""
        topics = (self._executed, self._chunk, self._observation, *self._newest)
        wanted = [topic for topic in topics if topic in self._bag.topics]
        for topic, at_ns, message in self._bag.messages(wanted, on_progress=on_progress):
            if topic == self._executed:
                yield self._tick(at_ns, message)
            else:
                self._add(topic, at_ns, message)
        for topic in sorted(self._received):
            if missing := self._drivers[topic].missing:
                found = f"{topic}: found no {', '.join(missing)} in any message"
                raise BagError(f"{self._bag.path}: {found}, expected every joint of the contract")

    def _add(self, topic: str, at_ns: int, message: Any) -> None:
        if topic == self._chunk:
            served_ms = message.queue_wait_ms, message.inference_ms
            remember(self._served_ms, request_key(message), served_ms, _REMEMBERED)
        elif topic == self._observation:
            remember(self._tasks, request_key(message), message.task, _REMEMBERED)
        elif topic not in self._drivers:
            self._newest[topic].add(at_ns, message)
        else:
            self._received.add(topic)
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
            found = f"{self._executed}: tick {message.tick}: found actions {show_value(names)}"
            expected = f"those of the contract in its order: {', '.join(self._names)}"
            raise BagError(f"{self._bag.path}: {found}, expected {expected}")
        t_ns = self._times.at(received_ns, message)
        state = self._newest[self._state].at(t_ns)
        queue_wait_ms, inference_ms = self._served_ms.get(request_key(message), (math.nan, math.nan))
        return from_message(
            ControlTick,
            message,
            t_ns=t_ns,
            # The policy was asked for this task; the node's state is published twice a second only.
            task=self._tasks.get(request_key(message)) or (state.task if state else ""),
            client_state=name_of(State, state.state) if state else "",
            paused=bool(state.paused) if state else None,
            action=np.array(message.action, np.float64) if len(message.action) else None,
            state=self._read_state(t_ns),
            images={name: self._newest[topic].at(t_ns) for name, topic in self._cameras.items()},
            interventions=tuple(message.interventions),
            age_s=message.action_age_s,
            queue_wait_ms=queue_wait_ms,
            inference_ms=inference_ms,
        )

    def _read_state(self, t_ns: int) -> FloatArray | None:
        messages = [self._newest[topic].at(t_ns) for topic, _ in self._readers]
        if any(message is None for message in messages):
            return None
        try:
            parts = [
                reader.read(message) for (_, reader), message in zip(self._readers, messages, strict=True)
            ]
        except SensorError as error:  # the robot refused it, too
            self._unreadable += 1
            self._first_unreadable = self._first_unreadable or str(error)
            return None
        return np.concatenate(parts)


ShowProgress = Callable[[str, Path], AbstractContextManager[OnProgress]]  # of what is done with a bag


def find_contract(bags: Sequence[Path], given: Contract | None) -> Contract:
    """Return the contract of all bags: the given one, or the recorded one.

    Raises BagError when a bag has none, or when the bags' contracts differ.
    """
    if given is not None:
        return given
    found: dict[Path, Contract] = {}
    for path in bags:
        with BagReader(path) as bag:
            found[path] = require_contract(bag)
    first = found[bags[0]]
    for path, contract in found.items():
        for key in ("fps", "row_fps", "state_names", "state_units", "images", "actions", "rename"):
            if getattr(contract, key) != getattr(first, key):
                differ = f"{path}: its contract's {key.replace('_', ' ')} differ from those of {bags[0]}"
                expected = "one contract; bags of different robots make different data sets"
                raise BagError(f"{differ}, expected {expected}")
    return first


def export(
    bags: Sequence[Path],
    target: Format,
    selection: Selection,
    *,
    namespace: str | None = None,
    outcomes: Mapping[int, bool] | None = None,
    show_progress: ShowProgress = lambda _what, _bag: nullcontext(no_progress),
) -> None:
    """Write all episodes of the bags, one bag after another.

    namespace: of the robot, None for the only one in each bag. outcomes: by episode_id, whether it succeeded;
    for a single bag. Raises BagError when a bag cannot be read or lacks what the export needs.
    """
    contract = target.contract
    period_ns = round((contract.row_period_s if target.takes_rows else contract.period_s) * 1e9)
    for path in bags:
        with open_robot(path, namespace, contract) as robot:
            failed: set[int] = set()
            if selection.drop_failed:
                with show_progress("looking for failed episodes", path) as on_progress:
                    failed = _find_failed(robot, outcomes or {}, on_progress)
            reader = TickReader(robot, images=target.images and target.needs_images)
            if selection.drop_paused and not robot.topics("state"):
                raise BagError(
                    f"{path}: --drop paused: found no state of the robot's node, which has the pauses"
                )
            with show_progress("exporting", path) as on_progress:
                for number, ticks in _episodes(reader.ticks(on_progress)):
                    if number in failed:
                        target.written.leave_out("failed episode", sum(1 for _ in ticks))
                        continue
                    kept = one_per_row(ticks, contract.ticks_per_row) if target.takes_rows else ticks
                    for tick in selection.apply(kept, period_ns, target.written):
                        target.add(tick)
                    target.end_episode()
            target.written.notes += reader.notes


def _find_failed(robot: RobotBag, outcomes: Mapping[int, bool], on_progress: OnProgress) -> set[int]:
    """Return the places in the bag of the episodes that failed.

    An episode failed if `outcomes` says so or, where it says nothing, if the robot was without actions when
    the episode ended.
    """
    failed = set()
    for number, ticks in _episodes(TickReader(robot, images=False).ticks(on_progress)):
        *_, last = ticks
        success = outcomes.get(last.episode_id)
        if success is False or (success is None and last.client_state in WITHOUT_ACTIONS):
            failed.add(number)
    return failed


def _episodes(ticks: Iterator[ControlTick]) -> Iterator[tuple[int, Iterator[ControlTick]]]:
    """Yield each episode's place in the bag and its ticks, which must be used up before the next.

    A restarted node counts ticks and episodes from zero.
    """
    place, before = -1, (-1, -1)

    def place_of(tick: ControlTick) -> int:
        nonlocal place, before
        place += tick.episode_id != before[0] or tick.tick <= before[1]
        before = tick.episode_id, tick.tick
        return place

    return groupby(ticks, place_of)
