# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Offers that a server has refused: counted, and told without filling the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rclpy.impl.rcutils_logger import RcutilsLogger

from remote_inference.core.admission import INTERNAL_REJECTION
from remote_inference.core.limits import shorten
from remote_inference.core.server.policy_error import explain_policy_error, trace_policy_error
from remote_inference.core.server.throttle import Throttle
from remote_inference.nodes.log_lines import about

TOLD_EVERY_S = 60.0  # of the same robot by the same rule: a robot asks again every second or two


class Refusals:
    """Counts refused offers, and logs the first of a robot by a rule. Any thread may call it."""

    def __init__(self, logger: RcutilsLogger, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock_s = clock_s
        self._throttle = Throttle(TOLD_EVERY_S)
        self._lock = threading.Lock()
        self.count = 0

    def note_fault(self, robot: str, client: str, error: BaseException) -> None:
        """Count an offer that failed by a fault of the server's own."""
        self.note(robot, client, INTERNAL_REJECTION, explain_policy_error(error))
        self._logger.debug(trace_policy_error(error))

    def note(self, robot: str, client: str, rejection: str, reason: str) -> None:
        """Count an offer that a robot's client made. rejection: name of the rule; reason: in words."""
        with self._lock:
            self.count += 1
        # Not by the reason, which may hold a number that changes.
        if self._throttle.admits(shorten(f"{rejection} {robot} {client}"), self._clock_s()):
            log = about(self._logger, shorten(robot))
            tell = log.error if rejection == INTERNAL_REJECTION else log.info
            tell(f"{shorten(client)} refused: {shorten(reason)}")
