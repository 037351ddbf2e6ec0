# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Launch actions from the processes of `bringup`; imported by the launch files only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from launch.actions import Shutdown
from launch_ros.actions import Node

from remote_inference.bringup import Process


def node_actions(processes: Iterable[Process]) -> list[Any]:
    """Return one Node action per process. When a required one ends, the launch ends."""
    return [
        Node(
            package="remote_inference",
            executable=process.executable,
            name=process.name,
            namespace=process.namespace,
            parameters=[*map(str, process.parameter_files), dict(process.parameters)],
            additional_env=dict(process.environment),
            output="both",
            on_exit=Shutdown(reason=f"{process.name} ended") if process.required else None,
        )
        for process in processes
    ]
