# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The box beside the arm: an emergency stop button, and a heartbeat that ends with the box."""

from __future__ import annotations

import time
from collections import deque
from itertools import pairwise

from std_msgs.msg import Bool, Empty

from support.nodes.rig import Rig

REMEMBERED = 600  # beats: a minute
SILENT_S = 0.5
BUTTON = {"button": {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True}}
STOPS = {
    **BUTTON,
    "beat": {"topic": "beat", "type": "std_msgs/msg/Empty", "stop_when": "silent", "silent_s": SILENT_S},
}


class Panel:
    """The button is told ten times a second."""

    def __init__(self, arm: Rig) -> None:
        self.pressed: bool | None = None  # None: the box is off
        self._button = arm.node.create_publisher(Bool, "estop", 10)
        self._beat = arm.node.create_publisher(Empty, "beat", 10)
        self._beats_s: deque[float] = deque(maxlen=REMEMBERED)  # when they were sent
        arm.node.create_timer(0.1, self._publish)

    def press(self, pressed: bool) -> None:
        self.pressed = pressed
        self._publish()

    def _publish(self) -> None:
        if self.pressed is not None:
            self._button.publish(Bool(data=self.pressed))
            self._beat.publish(Empty())
            self._beats_s.append(time.monotonic())

    def longest_silence_s(self) -> float:
        """Return how long it sent no beat, the longest time of the last minute, 0.0 before the second."""
        return max((after - before for before, after in pairwise(list(self._beats_s))), default=0.0)
