# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a bag holds of a robot's joints and poses: which topics may measure them, and their records."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.contract.commands.interfaces import JOINT_FIELDS
from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.state_source import JOINT_STATE, StateSource
from remote_inference.core.exchange import in_namespace
from remote_inference.recording.bags.bag_records import BagTopic
from remote_inference.wire import SensorError, WireError
from remote_inference.wire.sensors.state_readers import StateReader, make_state_reader

FloatArray = NDArray[np.float64]

EXECUTED_SUFFIX = "/remote_inference/executed"


def robots(topics: Iterable[str]) -> list[str]:
    """Return the namespaces whose executed actions are among the topics, "" for the root."""
    return sorted(topic.removesuffix(EXECUTED_SUFFIX) for topic in topics if topic.endswith(EXECUTED_SUFFIX))


def joint_topics(
    topics: Mapping[str, BagTopic], namespace: str, contract: Contract | None = None
) -> list[str]:
    """Return the recorded topics that may hold measured joints of the robot."""
    if contract is not None:
        sources = (*contract.joint_sources, *field_sources(contract))
        measuring = {in_namespace(namespace, source.topic) for source in sources}
        return [name for name in topics if name in measuring]
    others = [f"{other}/" for other in robots(topics) if not f"{namespace}/".startswith(f"{other}/")]
    return [
        topic.name
        for topic in topics.values()
        if topic.msgtype == JOINT_STATE and not topic.name.startswith(tuple(others))
    ]


def field_sources(contract: Contract) -> tuple[StateSource, ...]:
    """Return the sources that measure actions by fields: poses, and the velocities of an odometry."""
    names = set(contract.actions.names)
    sources = contract.state_sources.values()
    return tuple(source for source in sources if not source.is_joints and names & set(source.entries))


@dataclass(frozen=True)
class JointRecord:
    """One message: the joints that it names, or the actions that its fields measure, and their values."""

    t_s: float
    values: Mapping[str, float]


class RecordReader:
    """Makes records of the messages of `joint_topics`."""

    def __init__(self, namespace: str, contract: Contract | None) -> None:
        self._names: dict[str, dict[str, str]] = {}  # the contract's name of each joint, by topic
        self._fields: dict[
            str, list[tuple[tuple[str, ...], StateReader]]
        ] = {}  # entries and reader, by topic
        for source in contract.joint_sources if contract else ():
            topic = in_namespace(namespace, source.topic)
            self._names.setdefault(topic, {}).update(zip(source.joints, source.names, strict=True))
        for source in field_sources(contract) if contract else ():
            with suppress(WireError):  # a type that is not installed here
                reader = make_state_reader(source, "state")
                topic = in_namespace(namespace, source.topic)
                self._fields.setdefault(topic, []).append((source.entries, reader))
        found = zip(contract.actions.names, contract.actions.kinds, strict=True) if contract else ()
        self._kinds = {name: JOINT_FIELDS[kind] for name, kind in found}

    def read(self, topic: str, t_s: float, message: Any) -> JointRecord:
        """Return the record of a message, with the values of the actions' kinds."""
        if topic in self._fields:
            return JointRecord(t_s, self._read_fields(topic, message))
        names, kinds = self._names.get(topic, {}), self._kinds
        fields = dict.fromkeys(kinds.values())
        usual = next(iter(fields)) if len(fields) == 1 else "position"
        values: dict[str, float] = {}
        for field in fields or [usual]:
            pairs = zip(message.name, map(float, getattr(message, field)), strict=False)  # may be empty
            one_kind = len(fields) < 2
            values.update((n, v) for n, v in pairs if one_kind or kinds.get(names.get(n, n), usual) == field)
        return JointRecord(t_s, values)

    def _read_fields(self, topic: str, message: Any) -> dict[str, float]:
        values: dict[str, float] = {}
        for entries, reader in self._fields[topic]:
            with suppress(SensorError):  # the robot took no such message either
                values.update(zip(entries, reader.read(message).tolist(), strict=True))
        return values


class JointColumns:
    """The records of a topic as columns. Most topics name the same joints in each message."""

    def __init__(self) -> None:
        self._t_s: dict[tuple[str, ...], array[float]] = {}  # by the joints that a message names
        self._values: dict[tuple[str, ...], array[float]] = {}

    def add(self, record: JointRecord) -> None:
        """Take the next record."""
        joints = tuple(record.values)
        if joints not in self._t_s:
            self._t_s[joints], self._values[joints] = array("d"), array("d")
        self._t_s[joints].append(record.t_s)
        self._values[joints].extend(record.values.values())

    def __len__(self) -> int:
        return sum(len(t_s) for t_s in self._t_s.values())

    def count(self, joint: str) -> int:
        """Return how many messages name a joint."""
        return sum(len(t_s) for joints, t_s in self._t_s.items() if joint in joints)

    def parts(self) -> Iterator[tuple[tuple[str, ...], FloatArray, FloatArray]]:
        """Yield, for messages that name the same joints, these, the times `[n]` and values `[n, joints]`."""
        for joints, t_s in self._t_s.items():
            values = np.frombuffer(self._values[joints], np.float64) if joints else np.empty(0)
            yield joints, np.frombuffer(t_s, np.float64), values.reshape(len(t_s), len(joints))

    def series(self, joint: str) -> tuple[FloatArray, FloatArray]:
        """Return times and values `[n]` of one joint."""
        found = [(t_s, rows[:, joints.index(joint)]) for joints, t_s, rows in self.parts() if joint in joints]
        if len(found) == 1:
            return found[0]
        t_s = np.concatenate([np.empty(0), *(part[0] for part in found)])
        values = np.concatenate([np.empty(0), *(part[1] for part in found)])
        order = np.argsort(t_s, kind="stable")
        return t_s[order], values[order]
