# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated belt arm, driven by a policy server in another process.

    ros2 launch remote_inference demo.launch.py

Begin an episode with `ros2 service call /belt_arm_1/belt_arm/reset_environment
remote_inference/srv/ResetEnvironment "{seed: 1}"` and `ros2 service call /belt_arm_1/remote_inference/reset
std_srvs/srv/Trigger`.
"""

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration

from remote_inference.deployment import bringup
from remote_inference.deployment.launch_actions import node_actions


def generate_launch_description() -> LaunchDescription:
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "namespace", default_value="belt_arm_1", description="the robot's namespace"
            ),
            DeclareLaunchArgument(
                "rmw", default_value="", description="RMW_IMPLEMENTATION; empty: the environment's"
            ),
            OpaqueFunction(function=_start),
        ]
    )


def _start(context: LaunchContext) -> list:
    namespace = LaunchConfiguration("namespace").perform(context)
    rmw = LaunchConfiguration("rmw").perform(context)
    return node_actions(bringup.demo_processes(namespace=namespace, rmw=rmw))
