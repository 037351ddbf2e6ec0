# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes that subscribe to a command are its controllers, and which only look on."""

from __future__ import annotations

from remote_inference.core.contract.command_sink import CommandSink
from remote_inference.core.exchange import in_namespace

OBSERVERS = ("remote_inference", "command_watchdog", "bag_recorder", "foxglove_bridge")
OBSERVER_PREFIXES = (
    "rosbag2_recorder",  # of `ros2 bag record`; this package names one for each robot
    "_ros2cli",  # of `ros2 topic echo`, `hz` and `bw`
    "rqt_gui",
    "plotjuggler",
)
OBSERVER_SUFFIX = "_verb"  # of this package's command line


def is_observer(name: str) -> bool:
    """Return whether a node's name, without namespace, is that of a program that takes no commands."""
    return name in OBSERVERS or name.startswith(OBSERVER_PREFIXES) or name.endswith(OBSERVER_SUFFIX)


def is_controller(node: str, sink: CommandSink, namespace: str) -> bool:
    """Return whether a node that subscribes to a command takes it.

    The node that the contract names does, and no other; where it names none, each that is no known observer.

    node: full name. namespace: the robot's.
    """
    if sink.controller is not None:
        return node == in_namespace(namespace, sink.controller)
    return not is_observer(node.rpartition("/")[2])
