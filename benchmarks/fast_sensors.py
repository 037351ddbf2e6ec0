# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Plays an IMU at 1 kHz and odometry at 200 Hz for control_jitter.py, in a process of its own.

A driver does not wait for the other sensors of its robot, and its load is its own.
"""

from __future__ import annotations

import rclpy
from geometry_msgs.msg import TwistStamped
from rclpy.executors import ExternalShutdownException
from request_cycle_rig import ROBOT, SENSOR_PUBLISHER_QOS, plain_node
from sensor_msgs.msg import Imu

RATES_HZ = {"imu": 1000.0, "odom": 200.0}
TYPES = {"imu": Imu, "odom": TwistStamped}
# What a contract reads of them.
SOURCES = (
    {
        "topic": "imu",
        "type": "sensor_msgs/msg/Imu",
        "fields": [
            *(f"orientation.{axis}" for axis in "xyzw"),
            *(f"angular_velocity.{axis}" for axis in "xyz"),
        ],
        "names": ["qx", "qy", "qz", "qw", "wx", "wy", "wz"],
    },
    {
        "topic": "odom",
        "type": "geometry_msgs/msg/TwistStamped",
        "fields": ["twist.linear.x", "twist.angular.z"],
        "names": ["base_vx", "base_wz"],
    },
)


def main() -> None:
    rclpy.init()
    node = plain_node("fast_sensors")
    for topic, rate_hz in RATES_HZ.items():
        publisher = node.create_publisher(TYPES[topic], f"{ROBOT}/{topic}", SENSOR_PUBLISHER_QOS)
        message = TYPES[topic]()

        def publish(publisher=publisher, message=message) -> None:
            message.header.stamp = node.get_clock().now().to_msg()
            publisher.publish(message)

        node.create_timer(1.0 / rate_hz, publish)
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
