# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Loggers that prefix each line with its robot: `[robot=/robot_1 session_id=5f0c2ab41d77] ...`.

That of lines which may repeat, with or without such a prefix, is `CalmLogger`.
"""

from __future__ import annotations

import inspect
import os
import time
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from rclpy.impl import rcutils_logger
from rclpy.impl.logging_severity import LoggingSeverity
from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.node import Node

from remote_inference.base.limits import visible
from remote_inference.base.repeats import Repeats

# rclpy reports the caller of these files as the place of a line in the source.
rcutils_logger._internal_callers.append(os.path.realpath(__file__))


class ShownLogger(RcutilsLogger):
    """Shows the control characters of what comes from others: whoever reads the log obeys none."""

    def log(self, message: str, severity: LoggingSeverity, **options: Any) -> bool:
        return bool(super().log(visible(message, in_lines=True), severity, **options))


class RobotLogger(ShownLogger):
    """Prefixes lines with a robot, and with its session while there is one."""

    def __init__(self, name: str, robot: str, session_id: str = "") -> None:
        super().__init__(name)
        self.robot = robot
        self.session_id = session_id  # empty without one

    def log(self, message: str, severity: LoggingSeverity, **options: Any) -> bool:
        session = f" session_id={self.session_id}" if self.session_id else ""
        head = f"[robot={self.robot}{session}] "
        return super().log(head + message.replace("\n", f"\n{head}"), severity, **options)


def about(logger: RcutilsLogger, robot: str, session_id: str = "") -> RobotLogger:
    """Return a logger of the same name for a line about a robot."""
    return RobotLogger(logger.name, robot, session_id)


class CalmLogger:
    """Logs lines that may come many times a second, fewer and fewer (`base.repeats`). Any thread may call it.

    subject: what repeats; by default the text, whatever numbers are in it.
    """

    def __init__(self, logger: RcutilsLogger) -> None:
        self._logger = logger
        self._repeats = Repeats()

    def info(self, text: str, subject: str = "") -> None:
        if line := self._repeats.line(text, time.monotonic(), subject):
            self._logger.info(line)

    def warning(self, text: str, subject: str = "") -> None:
        if line := self._repeats.line(text, time.monotonic(), subject):
            self._logger.warning(line)

    def error(self, text: str, subject: str = "") -> None:
        if line := self._repeats.line(text, time.monotonic(), subject):
            self._logger.error(line)


_calm: WeakKeyDictionary[Node, CalmLogger] = WeakKeyDictionary()


def calm(node: Node) -> CalmLogger:
    """Return a node's logger of lines that may repeat; all its parts share it."""
    return _calm.setdefault(node, CalmLogger(node.get_logger()))


class RobotNode(Node):
    """A node of one robot, whose log lines name the robot."""

    def get_logger(self) -> RobotLogger:
        return self._id_logger

    @cached_property
    def _id_logger(self) -> RobotLogger:
        # With the first line of a process Python reads the names of all modules, which would block a control
        # thread for 50 ms: it is done before there is one.
        inspect.getframeinfo(inspect.currentframe())  # type: ignore[arg-type]
        return RobotLogger(super().get_logger().name, self.get_namespace())
