# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One pool of simulators, which trainers on other machines lease.

ros2 launch remote_inference pool.launch.py environment:=belt_arm slots:=8
"""

from launch import LaunchDescription

from remote_inference.learn.nodes.environment import read_options
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.launch_actions import ENVIRONMENT, Values, describe, read_number


def generate_launch_description() -> LaunchDescription:
    return describe(
        start,
        *ENVIRONMENT,
        ("slots", "8", "simulators, each in a process of its own"),
        ("lease_s", "10.0", "time after which a lease ends that nobody renews [s]"),
        ("name", "environment_pool", "the pool's node name"),
    )


def start(values: Values) -> list[bringup.Process]:
    pool = bringup.simulator_pool(
        values["environment"],
        slots=read_number(values, "slots", int),
        options=read_options(values["options"]),
        lease_s=read_number(values, "lease_s", float),
        name=values["name"],
    )
    return [pool]
