# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the launch files share: arguments, and the launch actions of processes. Imported by them only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import launch.logging
from launch import LaunchContext, LaunchDescription  # type: ignore[attr-defined]  # mypy takes our folder for it
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction, Shutdown
from launch.substitutions import EnvironmentVariable, LaunchConfiguration
from launch_ros.actions import Node

from remote_inference.base.paths import share_path
from remote_inference.tools.deployment import bringup, zenoh_config
from remote_inference.tools.deployment.middleware import middleware_warnings

Values = Mapping[str, str]
# Arguments of several launch files, as `describe` takes them.
NAMESPACE = ("namespace", "belt_arm_1", "the robot's namespace")
ENVIRONMENT = (
    ("environment", "belt_arm", "built-in name, gymnasium:<id>, package.module:attribute or an entry point"),
    ("options", "{}", "options of the environment, as JSON"),
)
CONTRACT = (
    "contract",
    str(share_path("config", "belt_arm.contract.yaml")),
    "YAML file that maps the robot's topics to the policy's features",
)
ROUTER = (
    "endpoint of the Zenoh router, such as tcp/host:7447; empty: this host's, or what ZENOH_CONFIG_OVERRIDE "
    "or ZENOH_SESSION_CONFIG_URI name. With a router on another host, every node of this host that others "
    "should see must name that router, and over a slow link large observations are lost: a robot far away "
    "runs a router of its own"
)


def describe(
    start: Callable[[Values], Iterable[bringup.Process]], *arguments: Any, has_middleware: bool = True
) -> LaunchDescription:
    """Return a launch description of processes.

    start: returns them for the arguments' values. arguments: name, default, description, and choices if any.
    has_middleware: add `rmw` and `router`; the environment wins over their defaults, an argument over both.
    False: `rmw` alone, by default the environment's.
    """
    own: tuple[Any, ...] = (("rmw", "", "RMW_IMPLEMENTATION; empty: the environment's"),)
    if has_middleware:
        rmw = EnvironmentVariable("RMW_IMPLEMENTATION", default_value=zenoh_config.RMW)
        own = (("rmw", rmw, "RMW_IMPLEMENTATION of the nodes"), ("router", "", ROUTER))
    declared = [
        DeclareLaunchArgument(
            name, default_value=default, description=text, choices=next(iter(choices), None)
        )
        for name, default, text, *choices in (*arguments, *own)
    ]
    names = [one.name for one in declared]

    def perform(context: LaunchContext) -> list[Any]:
        values = {name: str(LaunchConfiguration(name).perform(context)) for name in names}
        rmw, router = values.pop("rmw"), values.pop("router", "")
        if has_middleware:
            for warning in middleware_warnings(rmw, router):
                launch.logging.get_logger("remote_inference").warning(warning)
        return [_action(bringup.with_middleware(process, rmw, router)) for process in start(values)]

    return LaunchDescription([*declared, OpaqueFunction(function=perform)])


def read_list(values: Values, name: str) -> list[str]:
    """Return the entries of an argument, which commas separate."""
    return [entry.strip() for entry in values[name].split(",") if entry.strip()]


def _action(process: bringup.Process) -> Any:
    """Return the action of a process. When a required one ends, the launch ends."""
    end = Shutdown(reason=f"{process.name} ended") if process.required else partial(_report, process.name)
    common = {
        "name": process.name,
        "additional_env": dict(process.environment),
        "output": "both",
        "on_exit": end,
    }
    if process.words:
        return ExecuteProcess(cmd=list(process.words), **common)
    return Node(
        package="remote_inference",
        executable=process.executable,
        namespace=process.namespace,
        parameters=[*map(str, process.parameter_files), dict(process.parameters)],
        **common,
    )


def _report(name: str, event: Any, context: Any) -> None:
    """Log the end of a process that is not required. event: ProcessExited."""
    if not context.is_shutdown:
        launch.logging.get_logger("remote_inference").error(
            f"{name} ended with exit code {event.returncode}, the rest runs on without it"
        )
