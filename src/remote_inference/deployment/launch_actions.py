# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Launch actions and arguments that the launch files share; imported by them only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import launch.logging
from launch.actions import DeclareLaunchArgument, ExecuteProcess, Shutdown
from launch.substitutions import EnvironmentVariable, LaunchConfiguration
from launch_ros.actions import Node

from remote_inference.deployment import bringup, zenoh_config
from remote_inference.deployment.middleware import middleware_warnings

Number = TypeVar("Number", int, float)


def middleware_arguments() -> list[Any]:
    """Declare `rmw` and `router`. The environment wins over the default, an argument over both."""
    return [
        DeclareLaunchArgument(
            "rmw",
            default_value=EnvironmentVariable("RMW_IMPLEMENTATION", default_value=zenoh_config.RMW),
            description="RMW_IMPLEMENTATION of the nodes",
        ),
        DeclareLaunchArgument(
            "router",
            default_value="",
            description="endpoint of the Zenoh router, such as tcp/host:7447; empty: this host's, or what "
            "ZENOH_CONFIG_OVERRIDE or ZENOH_SESSION_CONFIG_URI name. With a router on another host, every "
            "node of this host that others should see must name that router, and over a slow link large "
            "observations are lost: a robot far away runs a router of its own",
        ),
    ]


def environment_arguments() -> list[Any]:
    """Declare `environment` and `options`: which simulator, made how."""
    return [
        DeclareLaunchArgument(
            "environment",
            default_value="belt_arm",
            description="built-in name, gymnasium:<id>, package.module:attribute or an entry point",
        ),
        DeclareLaunchArgument(
            "options", default_value="{}", description="options of the environment, as JSON"
        ),
    ]


def argument_reader(context: Any) -> Callable[[str], str]:
    """Return what gives an argument's value by its name. context: the LaunchContext."""
    return lambda name: str(LaunchConfiguration(name).perform(context))


def read_number(value: Callable[[str], str], name: str, kind: type[Number]) -> Number:
    """Return an argument's value as a number. value: as of `argument_reader`. Raises DeploymentError."""
    text = value(name)
    try:
        return kind(text)
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        raise bringup.DeploymentError(f"{name}: found {text!r}, expected {expected}") from None


def warn_of_middleware(rmw: str, router: str) -> None:
    """Log what `middleware_warnings` returns, and raise what it raises."""
    for warning in middleware_warnings(rmw, router):
        launch.logging.get_logger("remote_inference").warning(warning)


def node_actions(processes: Iterable[bringup.Process]) -> list[Any]:
    """Return one action per process. When a required one ends, the launch ends."""
    return [_program_action(process) if process.words else _node_action(process) for process in processes]


def _node_action(process: bringup.Process) -> Any:
    return Node(
        package="remote_inference",
        executable=process.executable,
        name=process.name,
        namespace=process.namespace,
        parameters=[*map(str, process.parameter_files), dict(process.parameters)],
        additional_env=dict(process.environment),
        output="both",
        on_exit=_on_exit(process),
    )


def _program_action(process: bringup.Process) -> Any:
    return ExecuteProcess(
        cmd=list(process.words),
        name=process.name,
        additional_env=dict(process.environment),
        output="both",
        on_exit=_on_exit(process),
    )


def _on_exit(process: bringup.Process) -> Any:
    return Shutdown(reason=f"{process.name} ended") if process.required else _report(process.name)


def _report(name: str) -> Callable[[Any, Any], None]:
    """Return what says that a process has ended which the robot can do without, such as its recorder.

    It takes launch's event ProcessExited and the LaunchContext.
    """

    def report(event: Any, context: Any) -> None:
        if not context.is_shutdown:
            launch.logging.get_logger("remote_inference").error(
                f"{name} ended with exit code {event.returncode}, the rest runs on without it"
            )

    return report
