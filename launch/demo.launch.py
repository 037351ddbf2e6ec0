# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated belt arm, driven by a policy server in another process.

    ros2 launch remote_inference demo.launch.py

Begin an episode with `ros2 service call /belt_arm_1/belt_arm/reset_environment
remote_inference/srv/ResetEnvironment "{seed: 1}"` and `ros2 service call /belt_arm_1/remote_inference/reset
std_srvs/srv/Trigger`.
"""

from launch import LaunchDescription

from remote_inference.tools.deployment.bringup import demo_processes
from remote_inference.tools.deployment.launch_actions import NAMESPACE, describe


def generate_launch_description() -> LaunchDescription:
    return describe(lambda values: demo_processes(**values), NAMESPACE, has_middleware=False)
