# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes that subscribe to a command are its controllers, and which only look on."""

from __future__ import annotations

from remote_inference.core.contract.commands.sink import CommandSink
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


def takes_commands(node: str, controller: str) -> bool:
    """Return whether a node that subscribes to a command takes it. Both are full names.

    controller: the node that takes it, and no other does; empty where none is named: then each node takes it
    that is no known observer.
    """
    return node == controller if controller else not is_observer(node.rpartition("/")[2])


def is_controller(node: str, sink: CommandSink, namespace: str) -> bool:
    """Return whether a node that subscribes to a command of a robot's contract takes it.

    node: full name. namespace: the robot's.
    """
    return takes_commands(node, in_namespace(namespace, sink.controller) if sink.controller else "")
