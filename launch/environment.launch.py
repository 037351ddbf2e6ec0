# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A simulated robot: an environment with the topics of a contract. robot.launch.py drives it as any other.

ros2 launch remote_inference environment.launch.py namespace:=robot_1 environment:=belt_arm
"""

from launch import LaunchDescription

from remote_inference.learn.nodes.environment import read_options
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.launch_actions import (
    CONTRACT,
    ENVIRONMENT,
    NAMESPACE,
    Values,
    describe,
)


def generate_launch_description() -> LaunchDescription:
    return describe(
        start,
        NAMESPACE,
        *ENVIRONMENT,
        CONTRACT,
        (
            "mode",
            "real_time",
            "stepped: time passes with commands only, one control period for each",
            ["real_time", "stepped"],
        ),
    )


def start(values: Values) -> list[bringup.Process]:
    robot = bringup.simulated_robot(
        values["environment"],
        values["contract"],
        options=read_options(values["options"]),
        namespace=values["namespace"],
        mode=values["mode"],
    )
    return [robot]
