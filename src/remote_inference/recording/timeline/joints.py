# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which recorded topics measured a robot's joints.

The contract names them exactly. Without a contract, a joint is taken from the JointState topic in the robot's
namespace that names the joint most often, or else from a topic outside. Topics of other robots in the bag do
not count, nor do topics whose messages repeat the executed actions: those are commands.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.contract.command_interfaces import JOINT_FIELDS
from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.sections import JOINT_STATE, JointLimit
from remote_inference.core.exchange import in_namespace
from remote_inference.recording.bags.bag_records import BagTopic

FloatArray = NDArray[np.float64]

EXECUTED_SUFFIX = "/remote_inference/executed"
_REPEATING_SHARE = 0.9  # of its messages that hold an executed action make a topic a command topic
_MIXER = 0x9E3779B97F4A7C15  # odd, and its bits are spread


@dataclass(frozen=True)
class Joint:
    """One dimension of the action, with its measurements."""

    name: str
    topic: str  # empty when nothing in the bag measures it
    t_s: FloatArray
    value: FloatArray  # [n] position, velocity or effort, as the action
    unit: str = ""  # empty without a contract
    limit: JointLimit | None = None  # None without a contract

    @classmethod
    def unheard(cls, name: str) -> Joint:
        return cls(name, "", np.empty(0), np.empty(0))


def robots(topics: Iterable[str]) -> list[str]:
    """Return the namespaces whose executed actions are among the topics, "" for the root."""
    return sorted(topic.removesuffix(EXECUTED_SUFFIX) for topic in topics if topic.endswith(EXECUTED_SUFFIX))


def joint_topics(
    topics: Mapping[str, BagTopic], namespace: str, contract: Contract | None = None
) -> list[str]:
    """Return the recorded topics that may hold measured joints of the robot."""
    if contract is not None:
        measuring = {in_namespace(namespace, source.topic) for source in contract.joint_sources}
        return [name for name in topics if name in measuring]
    others = [f"{other}/" for other in robots(topics) if not f"{namespace}/".startswith(f"{other}/")]
    return [
        topic.name
        for topic in topics.values()
        if topic.msgtype == JOINT_STATE and not topic.name.startswith(tuple(others))
    ]


def names_by_joint(namespace: str, contract: Contract | None) -> dict[str, dict[str, str]]:
    """Return the contract's name of each joint of a topic's messages, by topic."""
    names: dict[str, dict[str, str]] = {}
    for source in contract.joint_sources if contract else ():
        topic = in_namespace(namespace, source.topic)
        names.setdefault(topic, {}).update(zip(source.joints, source.names, strict=True))
    return names


@dataclass(frozen=True)
class JointRecord:
    """One JointState message: its names, and their values of their actions' kinds."""

    t_s: float
    values: Mapping[str, float]  # by joint

    @classmethod
    def of(cls, t_s: float, message: Any, contract: Contract | None, names: Mapping[str, str]) -> JointRecord:
        """Return the record of a message. names: those of `names_by_joint` of its topic."""
        found = zip(contract.actions.names, contract.actions.kinds, strict=True) if contract else ()
        kinds = {name: JOINT_FIELDS[kind] for name, kind in found}
        fields = dict.fromkeys(kinds.values())
        usual = next(iter(fields)) if len(fields) == 1 else "position"
        values: dict[str, float] = {}
        for field in fields or [usual]:
            pairs = zip(message.name, map(float, getattr(message, field)), strict=False)  # may be empty
            one_kind = len(fields) < 2
            values.update((n, v) for n, v in pairs if one_kind or kinds.get(names.get(n, n), usual) == field)
        return cls(t_s, values)


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


_UNHEARD = JointColumns()


def find_joints(
    names: Sequence[str],
    records: Mapping[str, JointColumns],
    actions: FloatArray,
    namespace: str,
    contract: Contract | None = None,
) -> tuple[Joint, ...]:
    """Return the joints by the names of the actions.

    records: by topic, those of `joint_topics`. actions: `[n, action_dim]` executed, NaN where none was.
    """
    if contract is not None:
        return tuple(_by_contract(name, records, namespace, contract) for name in names)
    measured = {topic: rows for topic, rows in records.items() if not _repeats(rows, names, actions)}
    return tuple(_by_rule(name, measured, namespace) for name in names)


def _by_contract(name: str, records: Mapping[str, JointColumns], namespace: str, contract: Contract) -> Joint:
    unit, limit = contract.actions.unit(name), contract.actions.limit_of(name)
    kind = JOINT_FIELDS[contract.actions.kind_of(name)]
    named = [
        (measurement.source, measurement.actions.index(name))
        for measurement in contract.measurements
        if measurement.source in contract.measured and name in measurement.actions
    ] or [
        (source, source.names.index(name))
        for source in contract.state
        if name in source.names and source.field == kind
    ]
    if not named or not named[0][0].is_joints:
        return Joint(name, "", np.empty(0), np.empty(0), unit, limit)
    source, place = named[0]
    joint, topic = source.joints[place], in_namespace(namespace, source.topic)
    return Joint(name, topic, *records.get(topic, _UNHEARD).series(joint), unit, limit)


def _by_rule(name: str, records: Mapping[str, JointColumns], namespace: str) -> Joint:
    naming = sorted(topic for topic in records if records[topic].count(name))
    own = [topic for topic in naming if topic.startswith(f"{namespace}/")]
    if not naming:
        return Joint.unheard(name)
    topic = max(own or naming, key=lambda topic: records[topic].count(name))
    return Joint(name, topic, *records[topic].series(name))


def _repeats(records: JointColumns, names: Sequence[str], actions: FloatArray) -> bool:
    """Return whether a topic's messages hold executed actions, digit by digit."""
    repeated = 0
    for joints, _, values in records.parts():
        common = [name for name in names if name in joints]
        if common:
            said = _as_words(values[:, [joints.index(name) for name in common]])
            executed = _as_words(actions[:, [names.index(name) for name in common]])
            repeated += int(np.isin(said, executed).sum())
    return bool(len(records)) and repeated >= _REPEATING_SHARE * len(records)


def _as_words(rows: FloatArray) -> NDArray[np.uint64]:
    """Return a number for each row `[n]`: the same for rows that are equal bit by bit, and for no others."""
    bits = np.ascontiguousarray(rows).view(np.uint64)
    words = np.zeros(len(bits), np.uint64)
    for column in bits.T:
        words = (words ^ column) * np.uint64(_MIXER)
        words ^= words >> np.uint64(29)
    return words
