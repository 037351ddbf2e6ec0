# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How every node of the package starts, spins and ends."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Protocol

import rclpy
from rclpy._rclpy_pybind11 import RCLError, RCLInvalidROSArgsError
from rclpy.action.client import ActionClient
from rclpy.action.server import ActionServer
from rclpy.context import Context
from rclpy.exceptions import NameValidationException, ParameterException
from rclpy.executors import Executor
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args, try_shutdown

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.nodes.executors import RCL_PLACE, add_node, make_executor, rest, spin_once
from remote_inference.base.nodes.start import leave
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.stop_signals import StopFlag, ending_signals, handle

# -- A console that accepts no output must not block a process that moves robots ------------------------


def make_console_nonblocking() -> None:
    """Drop output that the console does not accept. Call it before the process logs anything.

    A terminal after Ctrl-S, or a pipe whose reader is stuck, blocks the thread that logs, and with it all
    others: the middleware logs while it has the interpreter. Terminals and pipes are opened anew, so that
    others who share them still wait; a socket, such as the journal's, cannot be.
    """
    for descriptor in (1, 2):
        with suppress(OSError):  # closed, or of a system without /proc: it waits as before
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISFIFO(mode) or os.isatty(descriptor):
                own = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
                os.dup2(own, descriptor)
                os.close(own)
            elif stat.S_ISSOCK(mode):
                flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
                fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_NONBLOCK)


EXIT_REFUSED = 2  # a parameter or file is wrong: starting the node again does not help
EXIT_NO_MIDDLEWARE = 3  # starting again helps, once a client's Zenoh router is up
STOP_POLL_S = 0.1  # longest time until a signal is noticed
_stop = StopFlag()


class StartupError(Exception):
    """A node cannot start; the message says what, where, found and expected."""


class RunningNode(Protocol):
    """What `run_node` needs of a node besides rclpy's interface and the parameter `executor`."""

    exit_code: int | None  # set by the node to end its process
    schedule: TimerSchedule

    def close(self) -> None:
        """Stop threads and end sessions; publishers and services still work."""


def run_node(make_node: Callable[[], RunningNode], args: list[str] | None) -> int:
    """Start a node, spin it until a signal or its own end, close it; return the exit code.

    Every signal that would end the process does so in order (see `stop_signals`). The node is closed before
    the context is shut down, so that it can still publish and call. When the node cannot start, the reason is
    printed and the exit code is 2, or 3 when the middleware cannot start.
    """
    make_console_nonblocking()
    _catch_signals()
    try:
        remove_ros_args(args)  # `init` does not distinguish bad arguments from a missing router
    except RCLInvalidROSArgsError as error:
        return _refuse(str(error), EXIT_REFUSED)
    try:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    except RCLError as error:
        return _refuse(f"the middleware does not start: {error}", EXIT_NO_MIDDLEWARE)
    try:
        node = make_node()
    except (StartupError, DocumentError, ParameterException, NameValidationException, RCLError) as error:
        try_shutdown()
        if _stop.is_set():  # a thread that loads a policy cannot be stopped, and must not outlive Python
            leave(0)
        return _refuse(str(error), EXIT_REFUSED)
    assert isinstance(node, Node)
    executor, reason = make_executor(node.get_parameter("executor").value)
    if reason:
        node.get_logger().warning(f"executor: events does not work here, single is used: {reason}")
    _catch_signals()  # again: the events executor has its own handlers, which end the context
    add_node(executor, node)
    try:
        while not _stop.is_set() and node.exit_code is None:
            spin(node, STOP_POLL_S)
    finally:
        end_node(node, executor, try_shutdown, first=node.close)
    return node.exit_code or 0


def end_client(node: Node, executor: Executor, context: Context) -> None:
    """End a node that has a context of its own, and clients."""
    end_node(node, executor, partial(rclpy.shutdown, context=context), first=partial(rest, node))


def end_node(
    node: Node, executor: Executor, shut_down: Callable[[], object], *, first: Callable[[], object]
) -> None:
    """End a node's part of the middleware, after `first` and whatever fails on the way."""
    with ExitStack() as steps:  # the last is called first
        steps.callback(shut_down)
        steps.callback(destroy, node)
        steps.callback(executor.shutdown, timeout_sec=1.0)
        first()


def destroy(node: Node) -> None:
    """Destroy a node and its part of the middleware.

    rclpy leaves actions and the state machine of a managed node, which hold the node, to the garbage
    collector: the middleware would be destroyed while Python ends. There its threads can hang or crash, and
    Fast DDS leaves shared memory behind.
    """
    for waitable in list(node.waitables):
        if isinstance(waitable, (ActionClient, ActionServer)):
            waitable.destroy()
    node.destroy_node()
    if isinstance(node, LifecycleNode):
        node._state_machine.destroy_when_not_in_use()


def spin(node: RunningNode, timeout_s: float) -> None:
    """Let a node's executor run what is ready first, then make the periodic calls that are due."""
    assert isinstance(node, Node)
    spin_once(node, min(timeout_s, node.schedule.wait_s()))
    node.schedule.run_due()


def _catch_signals() -> None:
    handle(ending_signals(), _stop.set)


def is_stopping() -> bool:
    """Return whether a signal asked the process to end: for long work before the node spins."""
    return _stop.is_set()


def _refuse(reason: str, code: int) -> int:
    print(f"cannot start: {RCL_PLACE.sub('', reason)}", file=sys.stderr)
    return code
