# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a contract makes of each name, as tables: policy numbers of robot numbers, and bounds of actions."""

from __future__ import annotations

from collections.abc import Iterator

from remote_inference.core.contract.command_interfaces import Kind
from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.sections import JointLimit
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
            (name, kind, f"{limit.min:g}", f"{limit.max:g}", _describe_rate(kind, limit), actions.unit(name))
            for name, kind in zip(actions.names, actions.kinds, strict=True)
            for limit in [actions.limits[name]]
        ],
        numbers=("min", "max", "per second"),
    )


def _describe_rate(kind: Kind, limit: JointLimit) -> str:
    return "-" if kind == "switch" else f"{limit.fastest:g}"


def _describe_switch(limit: JointLimit) -> str:
    dwell = f", at most one change in {limit.dwell_s:g} s" if limit.dwell_s else ""
    return f"{limit.max:g} above {limit.closes_above:g}, {limit.min:g} below {limit.opens_below:g}{dwell}"
