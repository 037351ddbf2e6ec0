# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which recorded topics measured a robot's joints.

The contract names them exactly. Without a contract, a joint is taken from the JointState topic in the robot's
namespace that names the joint most often, or else from a topic outside. Topics of other robots in the bag do
not count, nor do topics whose messages repeat the executed actions: those are commands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
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


def find_joints(
    names: Sequence[str],
    records: Mapping[str, Sequence[JointRecord]],
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
    named = {
        topic: Counter(joint for row in rows for joint in row.values) for topic, rows in measured.items()
    }
    return tuple(_by_rule(name, measured, named, namespace) for name in names)


def _by_contract(
    name: str, records: Mapping[str, Sequence[JointRecord]], namespace: str, contract: Contract
) -> Joint:
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
    return Joint(name, topic, *_series(joint, records.get(topic, ())), unit, limit)


def _by_rule(
    name: str,
    records: Mapping[str, Sequence[JointRecord]],
    named: Mapping[str, Counter[str]],
    namespace: str,
) -> Joint:
    naming = sorted(topic for topic in records if named[topic][name])
    own = [topic for topic in naming if topic.startswith(f"{namespace}/")]
    if not naming:
        return Joint.unheard(name)
    topic = max(own or naming, key=lambda topic: named[topic][name])
    return Joint(name, topic, *_series(name, records[topic]))


def _series(joint: str, rows: Iterable[JointRecord]) -> tuple[FloatArray, FloatArray]:
    pairs = [(row.t_s, row.values[joint]) for row in rows if joint in row.values]
    table = np.array(pairs, np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _repeats(rows: Sequence[JointRecord], names: Sequence[str], actions: FloatArray) -> bool:
    """Return whether a topic's messages hold executed actions, digit by digit."""
    executed: dict[tuple[int, ...], Collection[bytes]] = {}
    repeated = 0
    for row in rows:
        columns = tuple(i for i, name in enumerate(names) if name in row.values)
        if columns not in executed:
            executed[columns] = {action.tobytes() for action in actions[:, columns]}
        values = np.array([row.values[names[i]] for i in columns], np.float64)
        repeated += bool(columns) and values.tobytes() in executed[columns]
    return bool(rows) and repeated >= _REPEATING_SHARE * len(rows)
