# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The message types of commands: one writer and one reader in `wire.commands` and one line for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from remote_inference.core.registry import Registry

Kind = Literal["position", "velocity", "effort"]  # of actions
ANY_KIND: tuple[Kind, ...] = ("position", "velocity", "effort")


@dataclass(frozen=True)
class CommandInterface:
    """What the core must know about a command's message type, and who knows the message.

    writer, reader: "module:class" of the wire.commands.CommandWriter, and of the CommandReader of a simulated
    controller. A controller that takes a horizon executes it by itself, until another command ends it.
    """

    writer: str
    reader: str = ""  # empty: no simulated controller takes it
    kinds: tuple[Kind, ...] = ANY_KIND  # of actions that the message can carry
    takes_horizon: bool = False


COMMAND_INTERFACES = Registry[CommandInterface]("command interface")
_COMMANDS = "remote_inference.wire.commands"
COMMAND_INTERFACES.add(
    "std_msgs/msg/Float64MultiArray",
    CommandInterface(f"{_COMMANDS}.multi_array:ArrayWriter", f"{_COMMANDS}.multi_array:ArrayReader"),
)
COMMAND_INTERFACES.add(
    "trajectory_msgs/msg/JointTrajectory",
    CommandInterface(
        f"{_COMMANDS}.trajectory:TrajectoryWriter",
        f"{_COMMANDS}.trajectory:TrajectoryReader",
        kinds=("position",),
        takes_horizon=True,
    ),
)
COMMAND_INTERFACES.add(
    "sensor_msgs/msg/JointState",
    CommandInterface(
        f"{_COMMANDS}.joint_state:JointStateWriter", f"{_COMMANDS}.joint_state:JointStateReader"
    ),
)

# By message type, "module:class" of the wire.commands.CommandReader of a person's commands.
TAKEOVER_INTERFACES = Registry[type]("takeover type")
TAKEOVER_INTERFACES.add("sensor_msgs/msg/JointState", f"{_COMMANDS}.joint_state:JointStateReader")
TAKEOVER_INTERFACES.add("std_msgs/msg/Float64MultiArray", f"{_COMMANDS}.multi_array:ArrayReader")
