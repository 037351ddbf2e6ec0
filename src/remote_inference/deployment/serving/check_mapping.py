# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a contract makes of each name, as tables: policy numbers of robot numbers, and bounds of actions."""

from __future__ import annotations

from collections.abc import Iterator

from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.pose_action import PoseAction
from remote_inference.core.contract.sections import Actions, JointLimit
from remote_inference.monitoring.tables import Table

INDENT = "  "


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


def _numbers(contract: Contract) -> Table:
    """Return how the policy's numbers follow from the robot's: policy = robot x factor + offset."""
    state = contract.state_names, contract.policy_state_names, contract.state_units
    actions = contract.actions.names, contract.policy_action_names, contract.action_units
    uses: dict[tuple[str, ...], list[str]] = {}
    for use, (names, policy_names, units) in {"state": state, "action": actions}.items():
        rows = zip(policy_names, names, units.lines, units.units, strict=True)
        for policy_name, name, (factor, offset), unit in rows:
            uses.setdefault((policy_name, name, f"{factor:g}", f"{offset:g}", unit), []).append(use)
    return Table(
        "",
        ("policy", "= robot", "x factor", "+ offset", "unit", "in"),
        [(*row, found[0] if len(found) == 1 else "both") for row, found in uses.items()],
        numbers=("x factor", "+ offset"),
    )


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
