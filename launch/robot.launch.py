# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Everything that runs on one robot: the remote_inference node and, on request, its recorder.

ros2 launch remote_inference robot.launch.py namespace:=robot_1 contract:=my_arm.contract.yaml
"""

from launch import LaunchDescription

from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.launch_actions import (
    CONTRACT,
    NAMESPACE,
    Values,
    describe,
    read_list,
)


def generate_launch_description() -> LaunchDescription:
    return describe(
        start,
        NAMESPACE,
        CONTRACT,
        (
            "servers",
            "",
            "names of policy servers, comma-separated, in order of preference; empty: those of params_file, "
            "or /policy_server",
        ),
        (
            "tags",
            "",
            "notes for logs and metrics, key=value, comma-separated; empty: those of params_file, or none",
        ),
        ("params_file", "", "ROS parameter file for the node; empty: defaults"),
        ("record", "", "folder of a bag to create; empty: no recording"),
        (
            "recorder",
            "auto",
            "what records; auto: `ros2 bag` where it is installed, unless params_file has parameters of "
            "bag_recorder, which alone keeps a budget, digests and counts of losses",
            ["auto", "ros2_bag", "bag_recorder"],
        ),
    )


def start(values: Values) -> list[bringup.Process]:
    return bringup.robot_processes(
        values["contract"],
        namespace=values["namespace"],
        servers=read_list(values, "servers"),
        tags=read_list(values, "tags"),
        parameter_files=[values["params_file"]] if values["params_file"] else [],
        bag=values["record"] or None,
        recorded_by=values["recorder"],
    )
