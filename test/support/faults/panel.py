# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The box beside the arm: an emergency stop button, and a heartbeat that ends with the box."""

from __future__ import annotations

from std_msgs.msg import Bool, Empty

from support.nodes.rig import Rig

STOPS = {
    "button": {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True},
    "beat": {"topic": "beat", "type": "std_msgs/msg/Empty", "stop_when": "silent", "silent_s": 0.5},
}


class Panel:
    """The button is told ten times a second."""

    def __init__(self, arm: Rig) -> None:
        self.pressed: bool | None = None  # None: the box is off
        self._button = arm.node.create_publisher(Bool, "estop", 10)
        self._beat = arm.node.create_publisher(Empty, "beat", 10)
        arm.node.create_timer(0.1, self._publish)

    def press(self, pressed: bool) -> None:
        self.pressed = pressed
        self._publish()

    def _publish(self) -> None:
        if self.pressed is not None:
            self._button.publish(Bool(data=self.pressed))
            self._beat.publish(Empty())
