# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One policy server: loads and warms its policy up, then admits robots.

ros2 launch remote_inference server.launch.py manifest:=my_policy.manifest.yaml
"""

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction

from remote_inference.deployment import bringup
from remote_inference.deployment.launch_actions import (
    argument_reader,
    middleware_arguments,
    node_actions,
    warn_of_middleware,
)
from remote_inference.paths import share_path


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "manifest",
                default_value=str(share_path("config", "belt_arm.manifest.yaml")),
                description="YAML file that says which policy to serve",
            ),
            DeclareLaunchArgument(
                "name", default_value="policy_server", description="the server's node name"
            ),
            DeclareLaunchArgument(
                "autostart",
                default_value="true",
                choices=["true", "false"],
                description="false: leave configure and activate to a lifecycle manager",
            ),
            *middleware_arguments(),
            OpaqueFunction(function=_start),
        ]
    )


def _start(context: LaunchContext) -> list:
    value = argument_reader(context)
    warn_of_middleware(value("rmw"), value("router"))
    server = bringup.server(
        value("manifest"),
        name=value("name"),
        autostart=value("autostart") == "true",
        rmw=value("rmw"),
        router=value("router"),
    )
    return node_actions([server])
