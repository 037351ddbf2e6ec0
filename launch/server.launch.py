# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One policy server: loads and warms its policy up, then admits robots.

ros2 launch remote_inference server.launch.py manifest:=my_policy.manifest.yaml
"""

from launch import LaunchDescription

from remote_inference.base.paths import share_path
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.launch_actions import Values, describe


def generate_launch_description() -> LaunchDescription:
    manifest = str(share_path("config", "belt_arm.manifest.yaml"))
    return describe(
        start,
        ("manifest", manifest, "YAML file that says which policy to serve"),
        ("name", "policy_server", "the server's node name"),
        (
            "autostart",
            "true",
            "false: leave configure and activate to a lifecycle manager",
            ["true", "false"],
        ),
    )


def start(values: Values) -> list[bringup.Process]:
    return [bringup.server(**{**values, "autostart": values["autostart"] == "true"})]
