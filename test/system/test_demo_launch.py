# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""demo.launch.py brings up server, arm and robot, and the robot streams. Needs launch_testing."""

import time
import unittest

import pytest

launch = pytest.importorskip(
    "launch", reason="needs launch: a full ROS 2 installation has it, the wheels do not"
)
pytest.importorskip(
    "launch_testing", reason="needs launch_testing, which comes with a full ROS 2 installation"
)

import launch_testing.actions  # noqa: E402
import rclpy  # noqa: E402
from launch.actions import IncludeLaunchDescription  # noqa: E402
from launch.launch_description_sources import PythonLaunchDescriptionSource  # noqa: E402

from remote_inference.base.paths import share_path  # noqa: E402
from remote_inference.base.wire.qos import LATCHED_QOS  # noqa: E402
from remote_inference.msg import ClientState  # noqa: E402

DEADLINE_S = 60.0


@pytest.mark.launch_test
def generate_test_description():
    demo = PythonLaunchDescriptionSource(str(share_path("launch", "demo.launch.py")))
    return launch.LaunchDescription([IncludeLaunchDescription(demo), launch_testing.actions.ReadyToTest()])


@pytest.fixture(autouse=True)
def _is_launched() -> None:
    """Skip where pytest itself runs the test: without the plugin of launch_testing nothing is launched."""
    pytest.skip("needs the pytest plugins launch_testing and launch_ros")


class TestDemo(unittest.TestCase):
    def test_the_robot_streams(self):
        context = rclpy.Context()
        rclpy.init(context=context)
        node = rclpy.create_node("test_demo_launch", context=context)
        executor = rclpy.executors.SingleThreadedExecutor(context=context)
        executor.add_node(node)
        states = []
        node.create_subscription(
            ClientState, "/belt_arm_1/remote_inference/state", states.append, LATCHED_QOS
        )
        deadline_s = time.monotonic() + DEADLINE_S
        while not any(state.state == ClientState.STREAMING for state in states):
            assert time.monotonic() < deadline_s, f"not streaming within {DEADLINE_S} s: {states[-1:]}"
            executor.spin_once(timeout_sec=0.5)
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown(context=context)
