# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a contract makes of each name, as tables: policy numbers of robot numbers, and bounds of actions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from remote_inference.core.contract.actions import Actions
from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.joint_limit import JointLimit, is_gripper
from remote_inference.core.contract.policy_units import Turned, scales_by_name
from remote_inference.core.contract.pose_action import PoseAction
from remote_inference.monitoring.tables import Table

INDENT = "  "
LEAST_OVERLAP = 0.2  # of a policy's range and an action's limits, as part of the larger one
MANY_TURNS = 4 * math.pi  # rad: limits beyond it may be meant in degrees


def describe_mapping(contract: Contract) -> Iterator[str]:
    """Yield the lines of both tables. Robot's numbers are in the contract's units, and so are limits."""
    for table in (_numbers(contract), _actions(contract)):
        yield ""
        yield from (f"{INDENT}{line}" for line in table.to_text().splitlines())
    for name, kind in zip(contract.actions.names, contract.actions.kinds, strict=True):
        if kind == "switch":
            yield f"{INDENT}switch {name}: {_describe_switch(contract.actions.limits[name])}"
    for name, pose in contract.actions.poses.items():
        yield f"{INDENT}pose {name}: {_describe_pose(pose)}"
    for measurement in contract.measurements if contract.measured else ():
        source = measurement.source
        entries = source.joints if source.is_joints else source.entries
        pairs = zip(measurement.actions, entries, strict=True)
        found = ", ".join(f"{action} as {entry}" for action, entry in pairs if action)
        yield f"{INDENT}measured by {source.topic}: {found}"


def _numbers(contract: Contract) -> Table:
    """Return how the policy's numbers follow from the robot's: policy = robot x factor + offset."""
    state = contract.state_names, contract.policy_state_names, contract.state_units
    actions = contract.actions.names, contract.policy_action_names, contract.action_units
    uses: dict[tuple[str, ...], list[str]] = {}
    for use, (names, policy_names, units) in {"state": state, "action": actions}.items():
        own = zip(names, units.lines, units.units, strict=True)
        columns = [(name, f"{factor:g}", f"{offset:g}", unit) for name, (factor, offset), unit in own]
        rows = units.lay_out(columns, partial(_turned_columns, names))
        for policy_name, row in zip(policy_names, rows, strict=True):
            uses.setdefault((policy_name, *row), []).append(use)
    return Table(
        "",
        ("policy", "= robot", "x factor", "+ offset", "unit", "in"),
        [(*row, found[0] if len(found) == 1 else "both") for row, found in uses.items()],
        numbers=("x factor", "+ offset"),
    )


def _turned_columns(names: Sequence[str], turned: Turned) -> list[tuple[str, str, str, str]]:
    """Return the columns of each number that the policy has in place of a quaternion."""
    quaternion = ", ".join(names[column] for column in turned.columns)
    shape = turned.rotation.shape
    return [(f"{turned.rotation.form} of {quaternion}", "", "", shape.unit)] * shape.width


def _actions(contract: Contract) -> Table:
    actions = contract.actions
    return Table(
        "",
        ("action", "kind", "min", "max", "per second", "unit"),
        [
            (name, kind, *_describe_bounds(actions, name), actions.unit(name))
            for name, kind in zip(actions.names, actions.kinds, strict=True)
        ],
        numbers=("min", "max", "per second"),
    )


def _describe_bounds(actions: Actions, name: str) -> tuple[str, str, str]:
    """Return lowest and highest command and the bound on its change; "-" for what has none of its own."""
    if name in actions.quaternions:
        return "-", "-", "-"
    limit, kind = actions.limit_of(name), actions.kind_of(name)
    return f"{limit.min:g}", f"{limit.max:g}", f"{limit.fastest:g}" if kind != "switch" else "-"


def _describe_pose(pose: PoseAction) -> str:
    position, quaternion = ", ".join(pose.position), ", ".join(pose.quaternion)
    speeds = f"{pose.max_velocity:g} m/s and {pose.max_angular_velocity:g} rad/s along its way"
    return f"position {position}; quaternion {quaternion}; {speeds}"


def _describe_switch(limit: JointLimit) -> str:
    dwell = f", at most one change in {limit.dwell_s:g} s" if limit.dwell_s else ""
    return f"{limit.max:g} above {limit.closes_above:g}, {limit.min:g} below {limit.opens_below:g}{dwell}"


def find_limit_warnings(contract: Contract) -> list[str]:
    """Return what a contract's limits may not be meant to say."""
    actions = contract.actions
    warnings = [
        f"actions.limits.{name}: a gripper that closes on an object will count as a joint that does not "
        "follow, and stop the arm; expected max_following_error: off"
        for name in actions.watched_grippers
    ]
    for name in actions.positions:
        limit = actions.limits[name]
        if limit.max_following_error == "off" and not is_gripper(name):
            warnings.append(
                f"actions.limits.{name}: found max_following_error: off for what is no gripper by its name: "
                "nothing notices when it stops following"
            )
        if actions.unit(name) == "rad" and max(-limit.min, limit.max) > MANY_TURNS:
            warnings.append(
                f"actions.limits.{name}: found {limit.min:g} to {limit.max:g} rad, more than two turns; "
                "degrees are none of the robot's: the policy's stand in scale"
            )
    for name, scale in scales_by_name(actions.scale).items():
        limit = actions.limit_of(name)
        if scale.range is not None and _overlap(scale.range, (limit.min, limit.max)) < LEAST_OVERLAP:
            low, high = scale.range
            warnings.append(
                f"actions.scale: found a range of {low:g} to {high:g} for {name}, whose limits are "
                f"{limit.min:g} to {limit.max:g}: they have little in common"
            )
    return warnings


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return how much of the larger of two ranges both have, 0 to 1. The ends of the first may fall."""
    low, high = min(one), max(one)
    common = min(high, other[1]) - max(low, other[0])
    return max(0.0, common) / max(high - low, other[1] - other[0])
