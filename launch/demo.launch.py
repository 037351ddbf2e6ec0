# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated belt arm, driven by a policy server in another process.

    ros2 launch remote_inference demo.launch.py

Begin an episode with `ros2 service call /belt_arm_1/belt_arm/reset_environment
remote_inference/srv/ResetEnvironment "{seed: 1}"` and `ros2 service call /belt_arm_1/remote_inference/reset
std_srvs/srv/Trigger`.
"""

from launch import LaunchDescription

from remote_inference.base.paths import share_path
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.launch_actions import NAMESPACE, Values, describe


def generate_launch_description() -> LaunchDescription:
    return describe(start, NAMESPACE, has_middleware=False)


def start(values: Values) -> list[bringup.Process]:
    """Return the shipped policy's server, the simulated arm and its robot node, autostarted."""
    config, namespace = share_path("config"), values["namespace"]
    return [
        bringup.server(config / "belt_arm.manifest.yaml"),
        bringup.belt_arm(namespace=namespace),
        bringup.robot(
            config / "belt_arm.contract.yaml",
            namespace=namespace,
            parameter_files=[config / "belt_arm.params.yaml"],
            parameters={"autostart": True},
        ),
    ]
