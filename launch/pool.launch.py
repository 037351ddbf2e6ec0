# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One pool of simulators, which trainers on other machines lease.

ros2 launch remote_inference pool.launch.py environment:=belt_arm slots:=8
"""

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction

from remote_inference.deployment.launch_actions import (
    argument_reader,
    environment_arguments,
    middleware_arguments,
    node_actions,
    read_number,
    warn_of_middleware,
)
from remote_inference.deployment.simulation import simulator_pool
from remote_inference.nodes.environments.environment_options import read_options


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            *environment_arguments(),
            DeclareLaunchArgument(
                "slots", default_value="8", description="simulators, each in a process of its own"
            ),
            DeclareLaunchArgument(
                "lease_s",
                default_value="10.0",
                description="time after which a lease ends that nobody renews [s]",
            ),
            DeclareLaunchArgument(
                "name", default_value="environment_pool", description="the pool's node name"
            ),
            *middleware_arguments(),
            OpaqueFunction(function=_start),
        ]
    )


def _start(context: LaunchContext) -> list:
    value = argument_reader(context)
    warn_of_middleware(value("rmw"), value("router"))
    pool = simulator_pool(
        value("environment"),
        slots=read_number(value, "slots", int),
        options=read_options(value("options")),
        lease_s=read_number(value, "lease_s", float),
        name=value("name"),
        rmw=value("rmw"),
        router=value("router"),
    )
    return node_actions([pool])
