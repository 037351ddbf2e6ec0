# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What all nodes' parameters have in common, and parameter files as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

PARAMETERS_KEY = "ros__parameters"
RCLPY_OWN = frozenset({"use_sim_time", "start_type_description_service"})

ExecutorName = Annotated[
    Literal["events", "single"],
    Field(
        description="what runs the callbacks: rclpy's `events` executor, which needs less time, or "
        "its plain one, `single`, which is used, too, where the other does not work"
    ),
]


def is_rclpys_own(name: str) -> bool:
    """Return whether a parameter is rclpy's, which nodes and files may set beside a node's own."""
    return name in RCLPY_OWN or name.startswith("qos_overrides.")


def find_sections(content: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the nodes that a file has parameters for, and the content of each one's section.

    A node is a path such as `/robot_1/remote_inference`, which may be written in one key or in nested ones,
    and may hold the wildcards `*` and `**`.
    """
    if not isinstance(content, Mapping):
        return
    for key, value in content.items():
        node = f"{place}/{str(key).strip('/')}"
        if isinstance(value, Mapping) and PARAMETERS_KEY in value:
            yield node, value[PARAMETERS_KEY]
        else:
            yield from find_sections(value, node)
