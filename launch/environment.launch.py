# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A simulated robot: an environment with the topics of a contract. robot.launch.py drives it as any other.

ros2 launch remote_inference environment.launch.py namespace:=robot_1 environment:=belt_arm
"""

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction

from remote_inference.deployment.launch_actions import (
    argument_reader,
    environment_arguments,
    middleware_arguments,
    node_actions,
    warn_of_middleware,
)
from remote_inference.deployment.simulation import simulated_robot
from remote_inference.nodes.environments.environment_options import read_options
from remote_inference.paths import share_path


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "namespace", default_value="belt_arm_1", description="the robot's namespace"
            ),
            *environment_arguments(),
            DeclareLaunchArgument(
                "contract",
                default_value=str(share_path("config", "belt_arm.contract.yaml")),
                description="YAML file that maps the robot's topics to the policy's features",
            ),
            DeclareLaunchArgument(
                "mode",
                default_value="real_time",
                choices=["real_time", "stepped"],
                description="stepped: time passes with commands only, one control period for each",
            ),
            *middleware_arguments(),
            OpaqueFunction(function=_start),
        ]
    )


def _start(context: LaunchContext) -> list:
    value = argument_reader(context)
    warn_of_middleware(value("rmw"), value("router"))
    robot = simulated_robot(
        value("environment"),
        value("contract"),
        namespace=value("namespace"),
        options=read_options(value("options")),
        mode=value("mode"),
        rmw=value("rmw"),
        router=value("router"),
    )
    return node_actions([robot])
