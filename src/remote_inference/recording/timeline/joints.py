# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which recorded topics measured a robot's joints.

The contract names them exactly. Without a contract, a joint is taken from the JointState topic in the robot's
namespace that names the joint most often, or else from a topic outside. Topics of other robots in the bag do
not count, nor do topics whose messages repeat the executed actions: those are commands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.contract.commands.interfaces import JOINT_FIELDS
from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.joint_limit import JointLimit
from remote_inference.core.exchange import in_namespace
from remote_inference.recording.timeline.joint_records import FloatArray, JointColumns

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


_UNHEARD = JointColumns()


def find_joints(
    names: Sequence[str],
    records: Mapping[str, JointColumns],
    executed: tuple[FloatArray, FloatArray],
    namespace: str,
    contract: Contract | None = None,
) -> tuple[Joint, ...]:
    """Return the joints by the names of the actions.

    records: by topic, those of `joint_topics`. executed: times `[n]`, and the actions `[n, action_dim]` then,
    NaN where none was.
    """
    t_s, actions = executed
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
    kind = JOINT_FIELDS[contract.actions.kind_of(name)]
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
    return Joint(name, topic, *records.get(topic, _UNHEARD).series(joint), unit, limit)


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
