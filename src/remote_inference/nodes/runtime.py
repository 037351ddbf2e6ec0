# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How every node of the package starts, spins and ends."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from typing import Protocol

import rclpy
from rclpy.exceptions import NameValidationException, ParameterException
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import try_shutdown

from remote_inference.core.document import DocumentError

STOP_POLL_S = 0.1  # longest time until a signal is noticed


class StartupError(Exception):
    """A node cannot start; the message says what, where, found and expected."""


class RunningNode(Protocol):
    """What `run_node` asks of a node besides being one."""

    exit_code: int | None  # set by the node to end its process

    def close(self) -> None:
        """Stop threads and say good-bye; publishers and services still work."""


def run_node(make_node: Callable[[], RunningNode], args: list[str] | None) -> int:
    """Start a node, spin it until SIGINT, SIGTERM or its own end, close it; return the exit code.

    The node is told before the context is shut down, so that it can still publish and call. A node that
    cannot start prints why and exits with 2.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = make_node()
    except (StartupError, DocumentError, ParameterException, NameValidationException) as error:
        print(f"cannot start: {error}", file=sys.stderr)
        try_shutdown()
        return 2
    assert isinstance(node, Node)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        while not stop.is_set() and node.exit_code is None:
            executor.spin_once(timeout_sec=STOP_POLL_S)
    finally:
        node.close()
        executor.shutdown(timeout_sec=1.0)
        node.destroy_node()
        try_shutdown()
    return node.exit_code or 0
