# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One robot's part of a bag: its namespace, contract and topics, and what measured its joints and poses."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.base.contract.action_bounds import JointLimit
from remote_inference.base.contract.action_kinds import ACTION_KINDS
from remote_inference.base.contract.contract import Contract, parse_contract
from remote_inference.base.contract.image_source import ImageSource
from remote_inference.base.contract.state_source import JOINT_STATE, StateSource
from remote_inference.base.exchange import in_namespace
from remote_inference.base.paths import PACKAGE
from remote_inference.base.wire.arrays import SensorError, WireError
from remote_inference.base.wire.sensors.state_readers import StateReader, make_state_reader

FloatArray = NDArray[np.float64]

EXECUTED_SUFFIX = f"/{PACKAGE}/executed"


def require_contract(bag: BagReader, contract: Contract | None = None) -> Contract:
    """Return a contract, or the recorded one in its place.

    Raises BagError when there is neither, DocumentError when the recorded one is damaged.
    """
    if contract is None and not bag.contract:
        raise BagError(f"{bag.path}: found no contract in the bag, expected one there or by --contract")
    return contract or parse_contract(bag.contract, f"{bag.path}: recorded contract")


def robots(topics: Iterable[str]) -> list[str]:
    """Return the namespaces whose executed actions are among the topics, "" for the root."""
    return sorted(topic.removesuffix(EXECUTED_SUFFIX) for topic in topics if topic.endswith(EXECUTED_SUFFIX))


class RobotBag:
    """One robot in an open bag. namespace: without a slash at its end, "" for the root."""

    def __init__(
        self, bag: BagReader, namespace: str | None = None, contract: Contract | None = None
    ) -> None:
        """namespace: absolute as in "/arm"; None: that of the only robot in the bag.

        contract: the robot's; None: the recorded one, if there is one. Raises BagError when there is no such
        robot, or several and none is wanted.
        """
        self.bag = bag
        self.namespace = _find_namespace(bag, namespace)
        self._contract = contract

    @cached_property
    def contract(self) -> Contract | None:
        """The given contract, or else the recorded one. Raises DocumentError when that one is damaged."""
        given = self._contract or self.bag.contract
        return require_contract(self.bag, self._contract) if given else None

    def require_contract(self) -> Contract:
        return require_contract(self.bag, self.contract)

    def topic(self, kind: str) -> str:
        return f"{self.namespace}/{PACKAGE}/{kind}"

    def topics(self, *kinds: str) -> list[str]:
        """Return the names of those topics of some kinds that are in the bag."""
        return [topic for topic in map(self.topic, kinds) if topic in self.bag.topics]

    def recorded(self, sources: Iterable[StateSource | ImageSource]) -> list[str]:
        """Return the topics of a contract's sources that are in the bag, each once.

        Raises BagError for a topic of another type than the contract says.
        """
        found: dict[str, None] = {}
        for source in sources:
            topic = in_namespace(self.namespace, source.topic)
            recorded = self.bag.topics.get(topic)
            if recorded is not None and recorded.msgtype != source.type:
                expected = f"{source.type}, as the contract says"
                raise BagError(f"{self.bag.path}: {topic}: found {recorded.msgtype}, expected {expected}")
            found |= {topic: None} if recorded else {}
        return list(found)

    def joint_topics(self) -> list[str]:
        """Return the topics that may hold measured joints of the robot. Raises BagError as `recorded`."""
        if self.contract is not None:
            return self.recorded((*self.contract.joint_sources, *field_sources(self.contract)))
        present = self.bag.topics
        others = [f"{one}/" for one in robots(present) if not f"{self.namespace}/".startswith(f"{one}/")]
        return [
            topic.name
            for topic in present.values()
            if topic.msgtype == JOINT_STATE and not topic.name.startswith(tuple(others))
        ]


@contextmanager
def open_robot(
    path: Path, namespace: str | None = None, contract: Contract | None = None
) -> Iterator[RobotBag]:
    """Open a bag for the part of one robot. Arguments and errors are those of RobotBag and `BagReader`."""
    with BagReader(path) as bag:
        yield RobotBag(bag, namespace, contract)


def _find_namespace(bag: BagReader, wanted: str | None) -> str:
    present = robots(bag.topics)
    listed = ", ".join(name or "/" for name in present) or "none"
    if wanted is None:
        if not present:
            expected = f"expected a topic *{EXECUTED_SUFFIX}, without which no command is known"
            raise BagError(f"{bag.path}: no robot in the bag, {expected}")
        if len(present) > 1:
            raise BagError(f"{bag.path}: several robots in the bag, name one: {listed} (--namespace)")
        return present[0]
    ns = "/" + wanted.strip("/") if wanted.strip("/") else ""
    if ns not in present:
        missing = f"topic {ns}{EXECUTED_SUFFIX} is not in the bag"
        raise BagError(f"{bag.path}: {missing}: no robot {ns or '/'} in the bag, which holds {listed}")
    return ns


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
    """Makes records of the messages of `RobotBag.joint_topics`."""

    def __init__(self, robot: RobotBag) -> None:
        namespace, contract = robot.namespace, robot.contract
        self._names: dict[str, dict[str, str]] = {}  # the contract's name of each joint, by topic
        self._fields: dict[str, list[tuple[tuple[str, ...], StateReader]]] = {}  # entries, reader by topic
        for source in contract.joint_sources if contract else ():
            topic = in_namespace(namespace, source.topic)
            self._names.setdefault(topic, {}).update(zip(source.joints, source.names, strict=True))
        for source in field_sources(contract) if contract else ():
            with suppress(WireError):  # a type that is not installed here
                reader = make_state_reader(source, "state")
                topic = in_namespace(namespace, source.topic)
                self._fields.setdefault(topic, []).append((source.entries, reader))
        found = zip(contract.actions.names, contract.actions.kinds, strict=True) if contract else ()
        self._kinds = {name: ACTION_KINDS[kind].field for name, kind in found}

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
            with suppress(SensorError):  # the robot refused such a message, too
                values.update(zip(entries, reader.read(message).tolist(), strict=True))
        return values


class JointColumns:
    """The records of a topic as columns. Most topics name the same joints in each message."""

    def __init__(self) -> None:
        # Times and values, by the joints that a message names.
        self._parts: dict[tuple[str, ...], tuple[array[float], array[float]]]
        self._parts = defaultdict(lambda: (array("d"), array("d")))

    def add(self, record: JointRecord) -> None:
        t_s, values = self._parts[tuple(record.values)]
        t_s.append(record.t_s)
        values.extend(record.values.values())

    def __len__(self) -> int:
        return sum(len(t_s) for t_s, _ in self._parts.values())

    def count(self, joint: str) -> int:
        return sum(len(t_s) for joints, (t_s, _) in self._parts.items() if joint in joints)

    def parts(self) -> Iterator[tuple[tuple[str, ...], FloatArray, FloatArray]]:
        """Yield, for messages that name the same joints, these, the times `[n]` and values `[n, joints]`."""
        for joints, (t_s, found) in self._parts.items():
            values = np.frombuffer(found, np.float64) if joints else np.empty(0)
            yield joints, np.frombuffer(t_s, np.float64), values.reshape(len(t_s), len(joints))

    def series(self, joint: str) -> tuple[FloatArray, FloatArray]:
        found = [(t_s, rows[:, joints.index(joint)]) for joints, t_s, rows in self.parts() if joint in joints]
        if len(found) == 1:
            return found[0]
        t_s = np.concatenate([np.empty(0), *(part[0] for part in found)])
        values = np.concatenate([np.empty(0), *(part[1] for part in found)])
        order = np.argsort(t_s, kind="stable")
        return t_s[order], values[order]


# Without a contract, a joint is taken from the JointState topic in the robot's namespace that names the joint
# most often, or else from a topic outside. Topics of other robots in the bag do not count, nor those whose
# messages repeat the executed actions: they are commands.

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


def find_joints(
    names: Sequence[str],
    records: Mapping[str, JointColumns],
    executed: tuple[FloatArray, FloatArray],
    robot: RobotBag,
) -> tuple[Joint, ...]:
    """Return the joints by the names of the actions.

    records: by topic, those of `RobotBag.joint_topics`. executed: times `[n]`, and the actions
    `[n, action_dim]` then, NaN where none was.
    """
    t_s, actions = executed
    namespace, contract = robot.namespace, robot.contract
    if contract is not None:
        joints = {name: _by_contract(name, records, namespace, contract) for name in names}
        for pose in contract.actions.poses.values():
            if set(pose.quaternion) <= set(names):
                commanded = actions[:, [names.index(name) for name in pose.quaternion]]
                joints |= _of_one_sign([joints[name] for name in pose.quaternion], t_s, commanded)
        return tuple(joints[name] for name in names)
    measured = {topic: rows for topic, rows in records.items() if not _repeats(rows, names, actions)}
    return tuple(_by_rule(name, measured, namespace) for name in names)


def _by_contract(name: str, records: Mapping[str, JointColumns], namespace: str, contract: Contract) -> Joint:
    unit, limit = contract.actions.unit(name), contract.actions.limit_of(name)
    kind = ACTION_KINDS[contract.actions.kind_of(name)].field
    named = [
        (measurement.source, measurement.actions.index(name))
        for measurement in contract.measurements
        if measurement.source in contract.measured and name in measurement.actions
    ] or [
        (source, source.entries.index(name))
        for source in contract.state
        if name in source.entries and (source.field == kind or not source.is_joints)
    ]
    if not named:
        return Joint(name, "", np.empty(0), np.empty(0), unit, limit)
    source, place = named[0]
    joint = source.joints[place] if source.is_joints else source.entries[place]
    topic = in_namespace(namespace, source.topic)
    return Joint(name, topic, *records.get(topic, JointColumns()).series(joint), unit, limit)


def _of_one_sign(parts: Sequence[Joint], t_s: FloatArray, commanded: FloatArray) -> dict[str, Joint]:
    """Return measured parts of a quaternion with the signs that are nearer to those of the commands `[n, 4]`.

    It and its negative are one orientation, and the driver may measure the other one.
    """
    is_known = np.isfinite(commanded).all(axis=1)
    if len({part.topic for part in parts}) > 1 or not parts[0].topic or not is_known.any():
        return {}
    newest = np.searchsorted(t_s[is_known], parts[0].t_s, side="right") - 1
    then = commanded[is_known][np.maximum(newest, 0)]
    measured = np.stack([part.value for part in parts], axis=1)
    signs = np.where((measured * then).sum(axis=1) < 0.0, -1.0, 1.0)
    return {part.name: replace(part, value=part.value * signs) for part in parts}


def _by_rule(name: str, records: Mapping[str, JointColumns], namespace: str) -> Joint:
    naming = sorted(topic for topic in records if records[topic].count(name))
    own = [topic for topic in naming if topic.startswith(f"{namespace}/")]
    if not naming:
        return Joint(name, "", np.empty(0), np.empty(0))
    topic = max(own or naming, key=lambda topic: records[topic].count(name))
    return Joint(name, topic, *records[topic].series(name))


def _repeats(records: JointColumns, names: Sequence[str], actions: FloatArray) -> bool:
    """Return whether a topic's messages hold executed actions, digit by digit."""
    repeated = 0
    for joints, _, values in records.parts():
        common = [name for name in names if name in joints]
        if common:
            measured = _as_words(values[:, [joints.index(name) for name in common]])
            executed = _as_words(actions[:, [names.index(name) for name in common]])
            repeated += int(np.isin(measured, executed).sum())
    return bool(len(records)) and repeated >= _REPEATING_SHARE * len(records)


def _as_words(rows: FloatArray) -> NDArray[np.uint64]:
    """Return a number for each row `[n]`: the same for rows that are equal bit by bit, and for no others."""
    bits = np.ascontiguousarray(rows).view(np.uint64)
    words = np.zeros(len(bits), np.uint64)
    for column in bits.T:
        words = (words ^ column) * np.uint64(_MIXER)
        words ^= words >> np.uint64(29)
    return words
