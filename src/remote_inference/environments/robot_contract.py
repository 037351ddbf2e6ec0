# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract of an environment as a robot of one policy: the policy's names and order, its own bounds."""

from __future__ import annotations

from typing import Any

from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.image_source import IMAGE
from remote_inference.core.contract.state_source import JOINT_STATE
from remote_inference.core.documents.document import parse_document
from remote_inference.core.environment import EnvironmentSpec
from remote_inference.core.policy import PolicySpec

_WIDE = 1e30  # of a bound that the environment does not have


def make_robot_contract(environment: EnvironmentSpec, policy: PolicySpec, task: str) -> Contract:
    """Return the contract. The actions' names are those of the environment.

    Raises DocumentError when no robot can be like that.
    """
    content = write_robot_contract(environment, policy, task)
    return parse_document(content, Contract, f"{environment.name} as a robot")


def write_robot_contract(environment: EnvironmentSpec, policy: PolicySpec, task: str) -> dict[str, Any]:
    """Return the contract as its file has it."""
    actions = environment.actions
    bounds = zip(actions.lower, actions.upper, actions.max_velocity, strict=True)
    limits = {
        name: {"min": max(low, -_WIDE), "max": min(high, _WIDE), "max_velocity": min(fastest, _WIDE)}
        for name, (low, high, fastest) in zip(actions.names, bounds, strict=True)
    }
    names = list(policy.action_names)
    joints = {"type": JOINT_STATE, "field": "position"}
    images = {
        name: {"topic": f"camera_{place}", "type": IMAGE} for place, name in enumerate(policy.image_shapes)
    }
    content: dict[str, Any] = {
        "robot_type": environment.name,
        "fps": float(environment.control_rate_hz),
        "task": task,
        "state": [{"topic": "state", **joints, "names": list(policy.state_names)}],
        "images": images,
        "rename": {f"images.{name}": name for name in images},
        "actions": {"kind": actions.kind, "names": names, "limits": {name: limits[name] for name in names}},
        "commands": [{"topic": "commands", "type": "std_msgs/msg/Float64MultiArray", "names": names}],
    }
    if actions.kind == "position" and not set(names) <= set(policy.state_names):
        content["measured"] = {"topic": "measured", **joints, "names": names}
    return content
