# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's parameters as ROS tools see them: described, bounded, read-only."""

from __future__ import annotations

import pytest
from rclpy.node import Node
from rclpy.parameter import Parameter

from remote_inference.core.robot.config import RobotConfig
from remote_inference.nodes.parameters import declare_parameters


def test_every_parameter_is_described_and_read_only(node: Node) -> None:
    declare_parameters(node, RobotConfig)
    for name in RobotConfig.model_fields:
        descriptor = node.describe_parameter(name)
        assert descriptor.description, name
        assert descriptor.read_only, name


def test_defaults_survive_the_way_through_ros(node: Node) -> None:
    assert declare_parameters(node, RobotConfig) == RobotConfig()


def test_numbers_carry_their_range_and_words_their_choices(node: Node) -> None:
    declare_parameters(node, RobotConfig)
    (bounds,) = node.describe_parameter("max_action_age_s").floating_point_range
    assert (bounds.from_value, bounds.to_value) == (0.05, 60.0)
    (bounds,) = node.describe_parameter("max_timeouts").integer_range
    assert (bounds.from_value, bounds.to_value) == (1, 100)
    assert node.describe_parameter("fallback").additional_constraints == "one of hold, repeat_last, zero"


@pytest.mark.parametrize("value", [0.7, "auto"])
def test_the_buffer_time_is_a_number_or_auto(value: float | str) -> None:
    import rclpy

    context = rclpy.Context()
    rclpy.init(context=context)
    made = Node("tuned", context=context, parameter_overrides=[Parameter("buffer_time_s", value=value)])
    try:
        assert declare_parameters(made, RobotConfig).buffer_time_s == value
    finally:
        made.destroy_node()
        rclpy.shutdown(context=context)
