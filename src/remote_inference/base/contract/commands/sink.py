# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract's commands: where a controller takes them, in which message, and which actions they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, model_validator

from remote_inference.base.contract.action_kinds import ANY_KIND, MOTIONS, Kind
from remote_inference.base.contract.field_path import parse_field_path
from remote_inference.base.contract.fields import (
    JOINT_PREFIX,
    FieldPathText,
    Name,
    Names,
    NodeName,
    Positive,
    Topic,
    check_prefix,
    require_type_name,
    require_unique,
)
from remote_inference.base.documents.document import Document
from remote_inference.base.documents.registry import Registry

# -- What the message types of commands can carry: one line for each -------------------------------------


@dataclass(frozen=True)
class CommandInterface:
    """The properties of a command's message type, and the classes that write and read it.

    writer, reader: "module:class" of the wire.commands.CommandWriter, and of the CommandReader of a simulated
    controller. A controller that takes a horizon executes it by itself, until another command ends it. A
    message that names its joints has them from the contract's `joints` of a command.
    """

    writer: str = ""  # empty: of `fields` and of actions
    reader: str = ""  # empty: no simulated controller takes it
    kinds: tuple[Kind, ...] = MOTIONS  # of actions that the message can carry
    takes_horizon: bool = False
    names_joints: bool = False


# Of an action server, which moves to its last goal by itself and stays there: no other kind can be stopped.
ACTION_INTERFACE = CommandInterface(kinds=("position",))

GROUP = "remote_inference.command_interfaces"  # of the entry points by which other distributions add types

_WIRE = "remote_inference.base.wire.commands"
ARRAY = CommandInterface(f"{_WIRE}:ArrayWriter", f"{_WIRE}:ArrayReader", ANY_KIND)
TRAJECTORY = CommandInterface(
    f"{_WIRE}:TrajectoryWriter",
    f"{_WIRE}:TrajectoryReader",
    ("position",),
    takes_horizon=True,
    names_joints=True,
)
JOINTS = CommandInterface(f"{_WIRE}:JointStateWriter", f"{_WIRE}:JointStateReader", names_joints=True)

COMMAND_INTERFACES = Registry[CommandInterface]("command interface", group=GROUP)
COMMAND_INTERFACES.add("std_msgs/msg/Float64MultiArray", ARRAY)
COMMAND_INTERFACES.add("trajectory_msgs/msg/JointTrajectory", TRAJECTORY)
COMMAND_INTERFACES.add("sensor_msgs/msg/JointState", JOINTS)

TAKEOVER_INTERFACES = Registry[CommandInterface]("takeover type")  # of a person's commands
TAKEOVER_INTERFACES.add("sensor_msgs/msg/JointState", JOINTS)
TAKEOVER_INTERFACES.add("std_msgs/msg/Float64MultiArray", ARRAY)


# -- The contract's section about the controllers that the command watchdog switches ---------------------

Controllers = tuple[Annotated[str, Field(min_length=1)], ...]


class ControllerSwitch(Document):
    """Which controllers the command watchdog wants to run in place of which others."""

    controller_manager: NodeName = "controller_manager"
    """node of the controller manager, relative to the robot's namespace"""
    activate: Controllers = ()
    """controllers to activate, for example one that holds the arm"""
    deactivate: Controllers = ()
    """controllers to deactivate: those that `commands` feeds"""

    @model_validator(mode="after")
    def _names_controllers(self) -> ControllerSwitch:
        if not self.activate and not self.deactivate:
            raise ValueError("found no controller in activate and deactivate, expected one at least")
        if both := sorted(set(self.activate) & set(self.deactivate)):
            raise ValueError(f"found {', '.join(both)} in activate and in deactivate, expected one of them")
        return self


class CommandSink(Document):
    """A controller's command topic or action, and the actions of the policy it takes, in its own order."""

    topic: Topic = ""
    """topic, relative to the robot's namespace; each command has one, or `action`"""
    action: Topic | None = None
    """in place of topic: action server that gets goals, relative to the robot's namespace, of a gripper for
    example; for position actions, with `fields`"""
    type: Name
    """what the controller takes: Float64MultiArray, JointState but for switches and poses, JointTrajectory
    for position actions only, or an entry point of an installed distribution; with `fields` any type that is
    installed; with `action` its type, of whose goal `fields` and `constant` are"""
    names: Names = ()
    """actions that the controller takes, in its own order; left out: of `fields`"""
    prefix: Annotated[str, JOINT_PREFIX] = ""
    fields: Mapping[FieldPathText, Name] = {}
    """the action for each field of the message: `twist.linear.x: base_vx`"""
    constant: Mapping[FieldPathText, bool | int | float | str] = {}
    """values of other fields, with `fields`: `header.frame_id: base_link`"""
    controller: NodeName | None = None
    """node of the controller, relative to the robot's namespace: no other subscriber counts as one; left out:
    each does but recorders and other known observers"""
    min_change: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    """with `action`: a goal is sent when an action is further than this from the last goal; left out: a
    hundredth of its range [unit of the action]"""
    max_rate_hz: Positive | None = None
    """with `action`: goals are sent at most this often; left out: 5 Hz [Hz]"""

    @model_validator(mode="before")
    @classmethod
    def _name_actions(cls, content: Any) -> Any:
        """Fill the actions' names from the fields, and drop the empty topic of a dump."""
        if isinstance(content, Mapping) and content.get("action") and content.get("topic") == "":
            content = {key: value for key, value in content.items() if key != "topic"}
        fields = content.get("fields") if isinstance(content, Mapping) else None
        if isinstance(fields, Mapping) and fields and not content.get("names"):
            return {**content, "names": tuple(fields.values())}
        return content

    @model_validator(mode="after")
    def _names_its_destination(self) -> CommandSink:
        if self.action is not None and self.topic:
            raise ValueError(f"action: found {self.action} beside topic {self.topic}, expected one of them")
        if self.action is None:
            if not self.topic:
                raise ValueError("topic: missing, expected it, or `action`")
            for key in ("min_change", "max_rate_hz"):
                if getattr(self, key) is not None:
                    raise ValueError(f"{key}: found with topic {self.topic}, expected it with `action` only")
            return self
        if not self.fields:
            expected = "the goal's field for each action, as `command.position: gripper`"
            raise ValueError(f"fields: missing, expected {expected}")
        if self.controller is not None:
            raise ValueError("controller: found with action, expected none: its server is the controller")
        return self

    @model_validator(mode="after")
    def _consistent(self) -> CommandSink:
        if not self.fields:
            if self.constant:
                raise ValueError("constant: found without fields, expected it with `fields`")
            if not self.names:
                raise ValueError("names: missing, expected the actions that the controller takes")
            try:
                COMMAND_INTERFACES.check(self.type)
            except ValueError as error:
                raise ValueError(f"type: {error}, or `fields`, for any message type") from None
            if self.prefix and not self.interface.names_joints:
                raise ValueError(f"prefix: found with {self.type}, expected a type that names its joints")
            check_prefix(self.prefix, self.names)
            return self
        if self.prefix:
            raise ValueError("prefix: found with fields, expected none: fields name no joints")
        try:
            require_type_name(self.type, "msg" if self.action is None else "action")
        except ValueError as error:
            raise ValueError(f"type: {error}") from None
        if self.names != tuple(self.fields.values()):
            expected = "none: fields name the actions"
            raise ValueError(f"names: found {', '.join(self.names)} beside fields, expected {expected}")
        require_unique(self.names, "fields")
        paths = [parse_field_path(text) for text in (*self.fields, *self.constant)]
        for place, path in enumerate(paths):  # not by their texts: data[0] and data[00] are one field
            if twice := [other.text for other in paths[:place] if other.parts == path.parts]:
                why = f"found {path.text} and {twice[0]}, expected one value for each field"
                raise ValueError(f"{'fields' if place < len(self.fields) else 'constant'}: {why}")
        if slices := [path.text for path in paths if path.slice]:
            raise ValueError(f"fields: found the slice {slices[0]!r}, expected one field for each value")
        return self

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the actions' joints in messages that name them, in the controller's order."""
        return tuple(name.removeprefix(self.prefix) for name in self.names)

    @property
    def destination(self) -> str:
        """The topic, or the name of the action, by which a command is known."""
        return self.action or self.topic

    @property
    def announced_topic(self) -> str:
        """The topic that shows in the graph who takes the command: an action server publishes its status."""
        return self.topic if self.action is None else f"{self.action}/_action/status"

    @cached_property  # an entry point is looked for in every distribution that is installed
    def interface(self) -> CommandInterface:
        """What the core must know of the controller; of `fields`, that they carry numbers of any kind."""
        if self.action is not None:
            return ACTION_INTERFACE
        return CommandInterface(kinds=ANY_KIND) if self.fields else COMMAND_INTERFACES.get(self.type)
