# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What `remote-inference check` finds in ROS parameter files: the parameters of robots."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from remote_inference.core.contract.contract import Contract
from remote_inference.core.documents.document import DocumentError, parse_document
from remote_inference.core.documents.problems import find_alien_keys, show_value
from remote_inference.core.robot.config import RobotConfig
from remote_inference.core.ros_parameters import PARAMETERS_KEY, ExecutorName, is_rclpys_own

ROBOT_NODE = "remote_inference"


class _RobotParameters(RobotConfig):
    """What a robot's section of a file may hold, besides the path of a contract."""

    executor: ExecutorName = "events"


def read_parameters(path: Path, content: Any, sections: Mapping[str, Any]) -> tuple[RobotConfig, ...]:
    """Return the parameters of each robot that a file names; with wildcards alone, of any robot.

    Those of other nodes and of rclpy do not count.
    """
    if problems := find_alien_keys(content):
        raise DocumentError("\n".join(f"{path}: {line}" for line in problems))
    general: dict[str, Any] = {}
    robots: dict[str, dict[str, Any]] = {}
    for node, section in sections.items():
        name = node.rpartition("/")[2]
        if name not in {ROBOT_NODE, "*", "**"}:
            if get_close_matches(name, [ROBOT_NODE], cutoff=0.8):
                raise DocumentError(
                    f"{path}: found a section of the node {name}, did you mean {ROBOT_NODE!r}?"
                )
            continue
        if not isinstance(section or {}, dict):
            found = f"found {show_value(section)}, expected a mapping of parameters"
            raise DocumentError(f"{path}: {node}: {PARAMETERS_KEY}: {found}")
        given = (section or {}).items()
        own = {key: value for key, value in given if key != "contract" and not is_rclpys_own(key)}
        if "*" in node:
            general |= own
        robots[node] = own
    named = {node: own for node, own in robots.items() if "*" not in node} or dict(list(robots.items())[:1])
    return tuple(
        parse_document({**general, **own}, _RobotParameters, f"{path}: {node}") for node, own in named.items()
    )


def find_parameter_problem(contract: Contract, parameters: RobotConfig) -> str:
    """Return why the robot's node refuses its parameters with this contract, or an empty string."""
    try:
        parameters.check_fallback(*contract.actions.kinds)
    except ValueError as error:
        return f"parameter {error}"
    return ""
