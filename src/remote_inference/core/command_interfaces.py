# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The message types of commands: one writer or reader in `wire.commands` and one line for each."""

from __future__ import annotations

from dataclasses import dataclass

from remote_inference.core.registry import Registry

ANY_KIND = ("position", "velocity", "effort")


@dataclass(frozen=True)
class CommandInterface:
    """What the core must know about a command's message type, and the name of its writer.

    writer: "module:class" of the wire.commands.CommandWriter, which knows the message. A controller that
    takes a horizon executes it by itself, until another command ends it.
    """

    writer: str
    kinds: tuple[str, ...] = ANY_KIND  # of actions that the message can carry
    takes_horizon: bool = False


COMMAND_INTERFACES = Registry[CommandInterface]("command interface")
_WRITERS = "remote_inference.wire.commands"
COMMAND_INTERFACES.add(
    "std_msgs/msg/Float64MultiArray", CommandInterface(f"{_WRITERS}.multi_array:ArrayWriter")
)
COMMAND_INTERFACES.add(
    "trajectory_msgs/msg/JointTrajectory",
    CommandInterface(f"{_WRITERS}.trajectory:TrajectoryWriter", kinds=("position",), takes_horizon=True),
)
COMMAND_INTERFACES.add(
    "sensor_msgs/msg/JointState", CommandInterface(f"{_WRITERS}.joint_state:JointStateWriter")
)

# By message type, "module:class" of the wire.commands.CommandReader of a person's commands.
TAKEOVER_INTERFACES = Registry[type]("takeover type")
TAKEOVER_INTERFACES.add("sensor_msgs/msg/JointState", f"{_WRITERS}.joint_state:JointStateReader")
TAKEOVER_INTERFACES.add("std_msgs/msg/Float64MultiArray", f"{_WRITERS}.multi_array:ArrayReader")
