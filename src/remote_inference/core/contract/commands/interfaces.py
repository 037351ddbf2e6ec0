# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the message types of commands can carry: one line for each.

Who writes and reads the messages of those below stands in `wire.commands`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from remote_inference.core.documents.registry import Registry

MotionKind = Literal["position", "velocity", "effort"]  # of what moves, and the fields of a JointState
LimitKind = Literal["position", "velocity", "effort", "switch"]  # of actions with bounds of their own
Kind = Literal["position", "velocity", "effort", "switch", "pose"]  # of actions
MOTIONS: tuple[Kind, ...] = ("position", "velocity", "effort")
ANY_KIND: tuple[Kind, ...] = (*MOTIONS, "switch", "pose")  # each says where to go, and not how far
# The field of a JointState in which a person, or a bag, has an action of each kind.
JOINT_FIELDS: Mapping[Kind, MotionKind] = {
    "position": "position",
    "velocity": "velocity",
    "effort": "effort",
    "switch": "position",
    "pose": "position",
}


@dataclass(frozen=True)
class CommandInterface:
    """What the core must know about a command's message type, and who knows the message.

    writer, reader: "module:class" of the wire.commands.CommandWriter, and of the CommandReader of a simulated
    controller. A controller that takes a horizon executes it by itself, until another command ends it. A
    message that names its joints has them from the contract's `joints` of a command.
    """

    writer: str = ""  # empty: that of wire.commands
    reader: str = ""  # empty: that of wire.commands; without one no simulated controller takes it
    kinds: tuple[Kind, ...] = MOTIONS  # of actions that the message can carry
    takes_horizon: bool = False
    names_joints: bool = False


# Of an action server, which moves to its last goal by itself and stays there: no other kind can be stopped.
ACTION_INTERFACE = CommandInterface(kinds=("position",))

GROUP = "remote_inference.command_interfaces"  # of the entry points by which other distributions add types

COMMAND_INTERFACES = Registry[CommandInterface]("command interface", group=GROUP)
COMMAND_INTERFACES.add("std_msgs/msg/Float64MultiArray", CommandInterface(kinds=ANY_KIND))
COMMAND_INTERFACES.add(
    "trajectory_msgs/msg/JointTrajectory",
    CommandInterface(kinds=("position",), takes_horizon=True, names_joints=True),
)
COMMAND_INTERFACES.add("sensor_msgs/msg/JointState", CommandInterface(names_joints=True))

# The message types of a person's commands, which wire.commands reads.
TAKEOVER_INTERFACES = Registry[CommandInterface]("takeover type")
TAKEOVER_INTERFACES.add("sensor_msgs/msg/JointState", CommandInterface())
TAKEOVER_INTERFACES.add("std_msgs/msg/Float64MultiArray", CommandInterface())
