# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Everything that runs on one robot: the remote_inference node and, on request, its recorder.

ros2 launch remote_inference robot.launch.py namespace:=robot_1 contract:=my_arm.contract.yaml
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
                "namespace", default_value="belt_arm_1", description="the robot's namespace"
            ),
            DeclareLaunchArgument(
                "contract",
                default_value=str(share_path("config", "belt_arm.contract.yaml")),
                description="YAML file that maps the robot's topics to the policy's features",
            ),
            DeclareLaunchArgument(
                "servers",
                default_value="",
                description="names of policy servers, comma-separated, in order of preference; empty: "
                "those of params_file, or /policy_server",
            ),
            DeclareLaunchArgument(
                "tags",
                default_value="",
                description="notes for logs and metrics, key=value, comma-separated; empty: those of "
                "params_file, or none",
            ),
            DeclareLaunchArgument(
                "params_file",
                default_value="",
                description="ROS parameter file for the node; empty: defaults",
            ),
            DeclareLaunchArgument(
                "record", default_value="", description="folder of a bag to create; empty: no recording"
            ),
            DeclareLaunchArgument(
                "recorder",
                default_value="auto",
                choices=["auto", "ros2_bag", "bag_recorder"],
                description="what records; auto: `ros2 bag` where it is installed, unless params_file has "
                "parameters of bag_recorder, which alone keeps a budget, digests and counts of losses",
            ),
            *middleware_arguments(),
            OpaqueFunction(function=_start),
        ]
    )


def _start(context: LaunchContext) -> list:
    value = argument_reader(context)

    def items(name: str) -> list[str]:
        return [item.strip() for item in value(name).split(",") if item.strip()]

    warn_of_middleware(value("rmw"), value("router"))
    processes = bringup.robot_processes(
        value("contract"),
        namespace=value("namespace"),
        servers=items("servers"),
        tags=items("tags"),
        parameter_files=[value("params_file")] if value("params_file") else [],
        bag=value("record") or None,
        recorded_by=value("recorder"),
        rmw=value("rmw"),
        router=value("router"),
    )
    return node_actions(processes)
