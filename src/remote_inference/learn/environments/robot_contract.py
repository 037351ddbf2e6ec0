# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Contracts of an environment: as a robot of one policy, and as the robot of a data set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.image_source import IMAGE
from remote_inference.base.contract.policy_units import is_degree
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import parse_document
from remote_inference.base.policy import PolicySpec
from remote_inference.learn.environment import EnvironmentSpec

_WIDE = 1e30  # of a bound that the environment does not have


def make_robot_contract(environment: EnvironmentSpec, policy: PolicySpec, task: str) -> Contract:
    """Return a contract of the policy's names and order, the environment's bounds. Raises DocumentError."""
    content = write_robot_contract(environment, policy, task)
    return parse_document(content, Contract, f"{environment.name} as a robot")


def write_robot_contract(environment: EnvironmentSpec, policy: PolicySpec, task: str) -> dict[str, Any]:
    """Return the contract of a policy's robot as its file has it."""
    content = _write(environment, task, policy.state_names, policy.action_names, policy.image_shapes)
    for name, limit in content["actions"]["limits"].items():  # an environment's numbers are the policy's
        unit = policy.units.get(name, "")
        if unit and not is_degree(unit):
            limit["unit"] = unit
    return content


def make_data_set_contract(environment: EnvironmentSpec, task: str, cameras: Sequence[str]) -> Contract:
    """Return the contract of a data set's robot: its topics are placeholders, its limits are wide open."""
    actions = environment.actions
    lowest, endless = ((bound,) * len(actions.names) for bound in (-math.inf, math.inf))
    robot = replace(environment, actions=replace(actions, lower=lowest, upper=endless, max_velocity=endless))
    content = _write(robot, task, environment.state_names, actions.names, cameras)
    return parse_document(content, Contract, environment.name)


def _write(
    environment: EnvironmentSpec,
    task: str,
    state_names: Sequence[str],
    action_names: Sequence[str],
    cameras: Iterable[str],
) -> dict[str, Any]:
    actions = environment.actions
    bounds = zip(actions.lower, actions.upper, actions.max_velocity, strict=True)
    limits = {
        name: {"min": max(low, -_WIDE), "max": min(high, _WIDE), "max_velocity": min(fastest, _WIDE)}
        for name, (low, high, fastest) in zip(actions.names, bounds, strict=True)
    }
    names = list(action_names)
    joints = {"type": JOINT_STATE, "field": "position"}
    images = {name: {"topic": f"camera_{place}", "type": IMAGE} for place, name in enumerate(cameras)}
    content: dict[str, Any] = {
        "robot_type": environment.name,
        "fps": float(environment.control_rate_hz),
        "task": task,
        "state": [{"topic": "state", **joints, "names": list(state_names)}],
        "images": images,
        "rename": {f"images.{name}": name for name in images},
        "actions": {"kind": actions.kind, "names": names, "limits": {name: limits[name] for name in names}},
        "commands": [{"topic": "commands", "type": "std_msgs/msg/Float64MultiArray", "names": names}],
    }
    if actions.kind == "position" and not set(names) <= set(state_names):
        content["measured"] = {"topic": "measured", **joints, "names": names}
    return content
