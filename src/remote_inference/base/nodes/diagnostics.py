# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A node's status on /diagnostics, where ROS tools look first."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from std_msgs.msg import Header

from remote_inference.base.wire.qos import DIAGNOSTICS_QOS, DIAGNOSTICS_TOPIC

PERIOD_S = 0.9  # a little less than 1 s, the reports' period or a multiple of it


class Diagnostics:
    """Publishes a node's one status: once a second, and at once when level or message change."""

    def __init__(self, node: Node, task: str) -> None:
        """task: subject of the status; its name is the node's name and the task."""
        self._clock = node.get_clock()
        self._name = f"{node.get_fully_qualified_name().lstrip('/')}: {task}"
        self._publisher = node.create_publisher(DiagnosticArray, DIAGNOSTICS_TOPIC, DIAGNOSTICS_QOS)
        self._last: tuple[bytes, str] | None = None
        self._last_s = 0.0

    def report(self, status: DiagnosticStatus) -> None:
        """Publish the status if it changed or is due. Must be called by one thread."""
        now_s, key = time.monotonic(), (status.level, status.message)
        if key == self._last and now_s - self._last_s < PERIOD_S:
            return
        self._last, self._last_s = key, now_s
        status.name = self._name
        header = Header(stamp=self._clock.now().to_msg())
        self._publisher.publish(DiagnosticArray(header=header, status=[status]))


def make_status(level: bytes, message: str, hardware_id: str, values: Mapping[str, str]) -> DiagnosticStatus:
    """Return a status; `Diagnostics` gives it its name."""
    return DiagnosticStatus(
        level=level,
        message=message,
        hardware_id=hardware_id,
        values=[KeyValue(key=key, value=value) for key, value in values.items()],
    )


def show_milliseconds(duration_ms: float | None) -> str:
    """Return a duration as text, empty before the first request (None or NaN)."""
    return "" if duration_ms is None or math.isnan(duration_ms) else f"{duration_ms:.1f}"
