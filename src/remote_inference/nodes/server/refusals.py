# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Offers that a server has refused: counted, and told without filling the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rclpy.impl.rcutils_logger import RcutilsLogger

from remote_inference.core.limits import shorten
from remote_inference.core.server.throttle import Throttle
from remote_inference.nodes.log_lines import about

TOLD_EVERY_S = 60.0  # of the same robot for the same reason: a robot asks again every second or two


class Refusals:
    """Counts refused offers, and logs the first of a robot for a reason. Any thread may call it."""

    def __init__(self, logger: RcutilsLogger, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock_s = clock_s
        self._throttle = Throttle(TOLD_EVERY_S)
        self._lock = threading.Lock()
        self.count = 0

    def note(self, robot: str, client: str, reason: str, *, is_fault: bool = False) -> None:
        """Count an offer that a robot's client made. is_fault: of the server, not of the offer."""
        with self._lock:
            self.count += 1
        line = f"{shorten(client)} refused: {shorten(reason)}"
        if self._throttle.admits(f"{robot} {line}", self._clock_s()):
            log = about(self._logger, shorten(robot))
            log.error(line) if is_fault else log.info(line)
