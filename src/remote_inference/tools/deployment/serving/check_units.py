# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether a contract's limits and a policy's numbers are in one unit, and let it move as it says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from remote_inference.base.contract.action_bounds import is_gripper
from remote_inference.base.contract.actions import RELATIVE
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.policy_units import UnitMap
from remote_inference.base.policy import Float32Array, PolicySpec
from remote_inference.robot.command import Float64Array

Range = tuple[float, float]  # lowest and highest
MUCH_WIDER = 2.5  # times a limit: mean and two deviations of data within a limit reach sqrt(5) times it
LEAST_MOTION = 0.05  # farther from 0 is at least the data of a joint that says something about its unit
LEAST_DEGREES = 2.0 * math.pi  # farther from 0 is at least one joint of an arm whose data is in degrees
# By the unit in which the robot has the policy's numbers: how far from 0 data in it is at most, and the unit
# that is meant beyond, with its factor.
UNITS = {"rad": (2.0 * math.pi, "degrees", 180.0 / math.pi), "m": (3.0, "millimetres", 1000.0)}
WIDEST_GRIPPER = 0.5, "a fraction", math.inf  # the same of a gripper's m, of data that may be 0 to 1
SLACK = 0.01  # of a limit's width: data that stays at an end of it is rounded


def find_unit_problem(contract: Contract, spec: PolicySpec) -> str:
    """Return which of a policy's training data is in another unit than the contract's limits; empty: none."""
    for what, pairs in _pair_with_limits(contract, spec):
        for name, unit, limit, found in pairs:
            if problem := _judge(name, unit, limit, found):
                return f"{what} {name!r} was trained on {_show(found)}, {problem}"
    return ""


def find_unit_doubts(contract: Contract, spec: PolicySpec) -> Iterator[str]:
    """Yield a warning where all training data that the contract takes for degrees may be in rad."""
    for what, pairs in _pair_with_limits(contract, spec):
        telling = [pair for pair in pairs if pair[1] == "degrees" and _farthest(pair[3]) > LEAST_MOTION]
        if len(telling) > 1 and all(
            _farthest(found) < min(LEAST_DEGREES, _farthest(limit) / 10.0) for *_, limit, found in telling
        ):
            name, _, limit, found = telling[0]
            yield (
                f"{what} {name!r} was trained on {_show(found)}, the robot's limits are {_show(limit)} "
                "degrees, and so with all in degrees: it may be rad, which needs no `scale` in the contract"
            )


def _pair_with_limits(
    contract: Contract, spec: PolicySpec
) -> Iterator[tuple[str, list[tuple[str, str, Range, Range]]]]:
    """Yield for state and action the names with limits: name, unit, limits, training data."""
    for what, limits, ranges in (
        ("state", _state_limits(contract), spec.state_ranges),
        ("action", _action_limits(contract), spec.action_ranges),
    ):
        yield what, [(name, *limits[name], ranges[name]) for name in ranges if name in limits]


def find_outside_data(contract: Contract, spec: PolicySpec) -> Iterator[str]:
    """Yield a warning for each action whose training data has its middle outside its limits.

    No more can be said of it: policies pad its deviation, and its ends may be single rows.
    """
    limits = _action_limits(contract)
    for name, found in spec.action_ranges.items():
        unit, (low, high) = limits.get(name, ("", (-math.inf, math.inf)))
        middle, slack = sum(found) / 2.0, SLACK * (high - low)
        if middle < low - slack or middle > high + slack:
            said = f"{_show(found)}, the robot's limits are {_show((low, high))} {unit}"
            yield f"action {name!r} was trained on {said}: it is led to their end instead"


def find_steep_rows(contract: Contract, rows: Float64Array) -> Iterator[str]:
    """Yield a warning for each bound of acceleration or jerk that is too low for a robot to follow rows.

    rows: `[rows, action_dim]` in the robot's units, one after the other at the policy's rate. Differences are
    not judged, nor is how a pose turns.
    """
    actions = contract.actions
    joints = [
        (name, kind, actions.limits[name], (name,))
        for name, kind in zip(actions.names, actions.said_kinds, strict=True)
        if kind in ("position", "velocity")
    ]
    poses = [(title, "", pose, pose.position) for title, pose in actions.poses.items() if not pose.relative]
    for title, kind, limit, names in (*joints, *poses):
        values = rows[:, [actions.names.index(name) for name in names]]
        for key, power in (("max_acceleration", 2), ("max_jerk", 3)):
            order, bound = power - (kind == "velocity"), getattr(limit, key) or math.inf
            steps = np.linalg.norm(np.diff(values, order, axis=0), axis=1) * contract.row_fps**order
            if len(steps) and (needed := np.percentile(steps, 99.0)) > bound:  # single ones may be far off
                yield f"{title}: found {key} {bound:g}, expected {needed:.3g} to keep up"


def find_odd_answers(contract: Contract, spec: PolicySpec, chunk: Float32Array) -> Iterator[str]:
    """Yield a warning for each action of a trial whose answers are in another unit than its limits.

    chunk: `[chunk_size, action_dim]`. Training data that is known says it better.
    """
    limits = _action_limits(contract)
    for name, column in zip(spec.action_names, chunk.T, strict=True):
        if name not in limits or name in spec.action_ranges:
            continue
        found = float(column.min()), float(column.max())
        if problem := _judge(name, *limits[name], found):
            yield f"action {name!r} is answered with {_show(found)}, {problem}"


def _judge(name: str, unit: str, limit: Range, found: Range) -> str:
    """Return why numbers are in another unit than a limit, in the policy's numbers, or an empty string."""
    most, other, factor = UNITS.get(unit, (math.inf, "", 1.0))
    if unit == "m" and is_gripper(name) and _farthest(found) <= MUCH_WIDER:
        most, other, factor = WIDEST_GRIPPER
    widest = MUCH_WIDER * _farthest(limit)
    if not _farthest(found) > max(most, widest):  # nor is NaN another unit
        return ""
    meant = f"{other}, or" if _farthest(found) <= factor * widest else "another unit, such as"
    remedy = "percent of a range: say it as `scale` in the contract"
    return f"the robot's limits are {_show(limit)} {unit}: that is {meant} {remedy}"


def _action_limits(contract: Contract) -> dict[str, tuple[str, Range]]:
    """Return unit and limits, in the policy's numbers, of each action that says where to go, by its name."""
    actions = contract.actions
    columns: list[Range | None] = []
    for name, kind in zip(actions.names, actions.said_kinds, strict=True):
        limit = None if kind.startswith(RELATIVE) or name in actions.quaternions else actions.limit_of(name)
        columns.append((limit.min, limit.max) if limit else None)
    return _by_policy_name(
        contract.policy_action_names, contract.policy_action_units, contract.action_units, columns
    )


def _state_limits(contract: Contract) -> dict[str, tuple[str, Range]]:
    """Return the same of each entry of the state that says where an action has brought its joint."""
    actions = contract.actions
    kinds = dict(zip(actions.names, actions.kinds, strict=True))
    columns: list[Range | None] = []
    for source in contract.state:
        for name in source.entries:
            same = kinds.get(name) == source.field == "position"
            columns.append((actions.limits[name].min, actions.limits[name].max) if same else None)
    return _by_policy_name(
        contract.policy_state_names, contract.policy_state_units, contract.state_units, columns
    )


def _by_policy_name(
    names: Sequence[str], policy_units: Sequence[str], units: UnitMap, columns: Sequence[Range | None]
) -> dict[str, tuple[str, Range]]:
    in_policy: list[Range | None] = [
        None if ends is None else (factor * ends[0] + offset, factor * ends[1] + offset)
        for ends, (factor, offset) in zip(columns, units.lines, strict=True)
    ]
    laid_out = units.lay_out(in_policy, lambda turned: [None] * turned.rotation.shape.width)
    found = zip(names, policy_units, laid_out, strict=True)
    return {name: (unit, (min(ends), max(ends))) for name, unit, ends in found if ends is not None}


def _farthest(ends: Range) -> float:
    return max(map(abs, ends))


def _show(ends: Range) -> str:
    return f"{ends[0]:.3g} to {ends[1]:.3g}"
