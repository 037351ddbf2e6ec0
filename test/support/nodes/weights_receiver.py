# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A node `receiver` that serves tensors and nothing else: trainers change them over ROS.

python -m support.nodes.weights_receiver
"""

from __future__ import annotations

import sys

from rclpy.node import Node

from remote_inference.base.nodes.runtime import run_node
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.learn.nodes.weights_link import TrainerLinks
from remote_inference.learn.weights.live import LiveWeights
from support.nodes.ros_weights import make_tensors

APPLY_PERIOD_S = 0.01


class Receiver(Node):
    """Applies what has come between two callbacks."""

    def __init__(self) -> None:
        super().__init__("receiver")
        self.exit_code: int | None = None
        self.schedule = TimerSchedule()
        self.declare_parameter("executor", "events")
        links = TrainerLinks(self, self.schedule)
        tell = self.get_logger().info
        self._weights = LiveWeights(
            make_tensors(), [links.listen()], lambda: "", lambda done: tell(str(done))
        )
        self.schedule.every(APPLY_PERIOD_S, self._weights.apply)

    def close(self) -> None:
        self._weights.close()


if __name__ == "__main__":
    sys.exit(run_node(Receiver, sys.argv))
