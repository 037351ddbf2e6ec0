# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a newcomer's hardware: two drivers, two controllers and a camera, which follow at once.

python seven_joint_arm.py --ros-args -r __ns:=/arm_7
"""

from __future__ import annotations

from array import array

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

ARM = ("base", "shoulder", "elbow", "wrist_1", "wrist_2", "wrist_3")
HEIGHT, WIDTH = 48, 64  # [px]


class SevenJointArm(Node):
    """Six axes behind a trajectory controller, a gripper behind a forward controller."""

    def __init__(self) -> None:
        super().__init__("seven_joint_arm")
        self._positions = dict.fromkeys(ARM, 0.2)
        self._gripper_m = 0.04
        self._arm = self.create_publisher(JointState, "arm/joint_states", 10)
        self._gripper = self.create_publisher(JointState, "gripper/joint_states", 10)
        self._camera = self.create_publisher(Image, "wrist/image_raw", qos_profile_sensor_data)
        self.create_subscription(JointTrajectory, "arm_controller/joint_trajectory", self._follow, 10)
        self.create_subscription(Float64MultiArray, "gripper_controller/commands", self._grip, 10)
        self.create_timer(1.0 / 30.0, self._publish)

    def _follow(self, trajectory: JointTrajectory) -> None:
        self._positions.update(zip(trajectory.joint_names, trajectory.points[0].positions, strict=True))

    def _grip(self, command: Float64MultiArray) -> None:
        self._gripper_m = command.data[0]

    def _publish(self) -> None:
        stamp = self.get_clock().now().to_msg()
        arm = JointState(name=list(ARM), position=list(self._positions.values()))
        gripper = JointState(name=["gripper"], position=[self._gripper_m])
        image = Image(height=HEIGHT, width=WIDTH, encoding="rgb8", step=3 * WIDTH)
        image.data = array("B", bytes([90]) * (HEIGHT * image.step))
        for publisher, message in ((self._arm, arm), (self._gripper, gripper), (self._camera, image)):
            message.header.stamp = stamp
            publisher.publish(message)


def main() -> None:
    rclpy.init()
    node = SevenJointArm()
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
