# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract's sources of the state: joints by name, fields of a message, or what a reader knows of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias

from numpy.typing import ArrayLike
from pydantic import ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from remote_inference.base.contract.action_kinds import MotionKind
from remote_inference.base.contract.field_path import FieldPath, parse_field_path
from remote_inference.base.contract.fields import (
    JOINT_PREFIX,
    FieldPathText,
    MessageType,
    Name,
    Topic,
    check_prefix,
    require_unique,
)
from remote_inference.base.contract.policy_units import Scale, StateRotation, check_scales, scales_by_name
from remote_inference.base.documents.document import Document
from remote_inference.base.documents.registry import Registry

# -- Readers of messages whose numbers stand in no fixed place, by message type --------------------------
#
# Most messages need none: a contract names their fields. A reader is for those that carry names beside
# numbers, or that must be decoded. Those that are built in stand in `base.wire.sensors.state_readers`.

GROUP = "remote_inference.message_readers"  # of the entry points by which other distributions add types

# Takes a message. Returns numbers `[n]` in an order of its own, which a contract's `names` name one by one;
# or numbers by name, of which `names` picks some. What it raises is said with the sensor's topic.
MessageReader: TypeAlias = Callable[[Any], ArrayLike | Mapping[str, float]]

MESSAGE_READERS = Registry[MessageReader]("message reader", group=GROUP)
JOINT_STATE = "sensor_msgs/msg/JointState"


class StateSource(Document):
    """Numbers picked from one topic; sources are concatenated in the contract's order."""

    # What the schema for editors can say of the rules below.
    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"type": {"const": JOINT_STATE}}},
            "then": {
                "required": ["field", "names"],
                "properties": {"fields": {"maxItems": 0}, "names": {"minItems": 1}},
            },
            "else": {"properties": {"field": False}},
        }
    )

    topic: Topic
    type: MessageType
    """message type of the topic: JointState, or any other that is installed"""
    field: MotionKind | None = None
    """JointState, required: which array of the message is read"""
    fields: tuple[FieldPathText, ...] = ()
    """other types: the numbers to read, such as twist.linear.x, poses[3].position.x or data[0:64]; left out:
    what a reader of the type's own says"""
    names: tuple[Name, ...] = ()
    """JointState: joints to pick from the message, in the policy's order; other types: a name for each of
    `fields`, left out: these themselves; those of a slice are numbered"""
    prefix: Annotated[str, JOINT_PREFIX] = ""
    scale: tuple[Scale, ...] = ()
    """names that the policy has in another unit than the message; others pass as is"""
    rotations: tuple[StateRotation, ...] = ()
    """quaternions that the policy sees in another form; others pass as they are"""

    @model_validator(mode="after")
    def _consistent(self) -> StateSource:
        if self.is_joints:
            self._check_joints()
        else:
            self._check_message()
        # Nobody knows what the numbers of another message are: each unit may be right.
        check_scales(self.scale, dict.fromkeys((*self.entries, *self.names), self.field or "position"))
        self._check_scaled_slices()
        self._check_rotations()
        return self

    def _check_joints(self) -> None:
        if self.field is None:
            raise ValueError("field: missing, expected which array of the message is read")
        if self.fields:
            expected = "`field` and `names`: joints are picked by name"
            raise ValueError(f"fields: found with JointState, expected {expected}")
        if not self.names:
            raise ValueError("names: missing, expected joints to pick from the message")
        check_prefix(self.prefix, self.names)

    def _check_message(self) -> None:
        if self.prefix:
            raise ValueError(f"prefix: found with {self.type}, expected it with {JOINT_STATE} only")
        if self.field is not None:
            expected = f"it with {JOINT_STATE} only: `fields` says what is read of other types"
            raise ValueError(f"field: found with {self.type}, expected {expected}")
        if self.fields:
            if self.names and len(self.names) != len(self.fields):
                found = f"names: found {len(self.names)} for {len(self.fields)} fields"
                raise ValueError(f"{found}, expected one for each")
        elif conflict := MESSAGE_READERS.find_conflict(self.type):
            raise ValueError(f"found {self.type!r}, {conflict}")
        elif self.type not in MESSAGE_READERS.every_name:
            raise ValueError(
                f"fields: missing, expected the numbers to read of {self.type}, such as twist.linear.x; "
                f"no installed distribution has an entry point {GROUP} for it"
            )
        elif not self.names:
            raise ValueError(f"names: missing, expected a name for each number that is read of {self.type}")

    def _check_scaled_slices(self) -> None:
        scaled = scales_by_name(self.scale)
        for name, entries in self._named_entries:
            twice = [entry for entry in entries if entry != name and entry in scaled]
            if name in scaled and twice:
                raise ValueError(f"scale: found {twice[0]} and {name}, which holds it, expected one of them")

    def _check_rotations(self) -> None:
        turned = [name for rotation in self.rotations for name in rotation.quaternion]
        require_unique(turned, "rotations: quaternion")
        if self.is_joints and turned:
            raise ValueError(f"rotations: found with {JOINT_STATE}, expected a message with quaternions")
        if unknown := [name for name in turned if name not in self.entries]:
            expected = f"names of {', '.join(self.entries)}"
            raise ValueError(f"rotations: found {', '.join(unknown)}, expected {expected}")
        scales = zip(self.entries, self.scales, strict=True)
        if scaled := [name for name, scale in scales if scale is not None and name in turned]:
            expected = "none: a quaternion has no unit"
            raise ValueError(f"rotations: found {', '.join(scaled)} in scale, expected {expected}")

    @property
    def is_joints(self) -> bool:
        """Whether joints are picked by name out of a JointState."""
        return self.type == JOINT_STATE

    @property
    def joints(self) -> tuple[str, ...]:
        """Names `[n]` that a JointState has for `names`."""
        return tuple(name.removeprefix(self.prefix) for name in self.names)

    @property
    def paths(self) -> tuple[FieldPath, ...]:
        """Fields that are read; none for joints, and for a message that a reader of its own takes."""
        return tuple(map(parse_field_path, self.fields))

    @property
    def _named_entries(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each of `names`, or of the paths in their place, with the entries that it stands for."""
        if not self.paths:
            return tuple((name, (name,)) for name in self.names)
        if not self.names:
            return tuple((path.text, path.names) for path in self.paths)
        pairs = zip(self.names, self.paths, strict=True)
        return tuple((name, path.name_items(name)) for name, path in pairs)

    @property
    def entries(self) -> tuple[str, ...]:
        """Names `[n]` of the numbers, to which `scale` refers: the joints, or the fields."""
        return tuple(entry for _, entries in self._named_entries for entry in entries)

    @property
    def scales(self) -> tuple[Scale | None, ...]:
        """Scale `[n]` of each entry that has one; that of a slice's name holds for all of its items."""
        scaled = scales_by_name(self.scale)
        return tuple(
            scaled.get(entry, scaled.get(name)) for name, entries in self._named_entries for entry in entries
        )

    @property
    def state_names(self) -> tuple[str, ...]:
        """State entries `[n]`: a joint's own name for a position, else `joint.velocity` or `joint.effort`."""
        if not self.is_joints or self.field == "position":
            return self.entries
        return tuple(f"{name}.{self.field}" for name in self.names)


class OneOrSeveral:
    """Says in a schema that a section may stand in place of a list of them."""

    @staticmethod
    def read(content: Any) -> Any:
        """Return the list for a single section, whose problems have no index; anything else as it is."""
        if content is None:
            return ()
        return (StateSource.model_validate(content),) if isinstance(content, Mapping) else content

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        several = handler(schema)
        return {"anyOf": [several["items"], several, {"type": "null"}]}
