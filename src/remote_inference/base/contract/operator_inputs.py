# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract's inputs of people and safety devices: what stops the robot, commands it or instructs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from remote_inference.base.contract.commands.sink import TAKEOVER_INTERFACES
from remote_inference.base.contract.field_path import parse_field_path
from remote_inference.base.contract.fields import (
    FieldPathText,
    MessageType,
    Name,
    Positive,
    Topic,
    require_unique,
)
from remote_inference.base.documents.document import Document, NameIn

BOOL = "std_msgs/msg/Bool"
LONGEST_SILENCE_S = 10.0  # milliseconds that are taken for seconds would be no stop


class StopInput(Document):
    """A topic that stops the robot, by its value or by its silence."""

    topic: Topic
    type: MessageType
    """message type of the topic; std_msgs/msg/Bool unless stop_when is silent"""
    stop_when: bool | Literal["silent"]
    """true, false: the value that stops; silent: every message is a sign of life"""
    silent_s: Annotated[Positive | None, Field(le=LONGEST_SILENCE_S)] = None
    """silence that stops, too [s]; required for silent, left out: silence is no stop"""

    @property
    def by_value(self) -> bool:
        """Whether a value stops, not silence alone."""
        return self.stop_when != "silent"

    @model_validator(mode="after")
    def _consistent(self) -> StopInput:
        if not self.by_value and self.silent_s is None:
            raise ValueError("silent_s: missing, expected the silence that stops [s]")
        if self.by_value and self.type != BOOL:
            raise ValueError(f"type: found {self.type} for a stop by value, expected {BOOL}")
        return self


class InstructionInput(Document):
    """A topic whose text is the robot's task from the next request on."""

    topic: Topic
    type: Literal["std_msgs/msg/String"]
    """message type of the topic"""


class TakeoverPart(Document):
    """A topic on which a person commands some of the actions, as a joystick does those of a base."""

    topic: Topic
    type: MessageType
    """message type of the topic; with `fields` any"""
    names: tuple[Name, ...] = ()
    """its actions, by name or in this order, as takeover.type says"""
    fields: Mapping[FieldPathText, Name] = {}
    """in place of names: the action of each field, as `twist.linear.x: base_vx`"""

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions that the topic carries."""
        return self.names or tuple(self.fields.values())

    @property
    def silent_s(self) -> None:
        """A joystick that nobody holds says nothing: no silence of this topic alone is a fault."""
        return

    @model_validator(mode="after")
    def _consistent(self) -> TakeoverPart:
        if bool(self.names) == bool(self.fields):
            found = "both" if self.names else "neither"
            raise ValueError(f"names, fields: found {found}, expected one of them")
        if self.names:
            try:
                TAKEOVER_INTERFACES.check(self.type)
            except ValueError as error:
                raise ValueError(f"type: {error}, or `fields`, for any message type") from None
        if slices := [text for text in self.fields if parse_field_path(text).slice]:
            raise ValueError(f"fields: found the slice {slices[0]!r}, expected one field for each action")
        return self


class TakeoverInput(Document):
    """A topic on which a person commands the robot after `takeover`, and those of other devices beside it."""

    topic: Topic
    type: Annotated[str, NameIn(TAKEOVER_INTERFACES)]
    """JointState: by the names of the actions; Float64MultiArray: in their order"""
    silent_s: Annotated[Positive, Field(le=LONGEST_SILENCE_S)] = 0.5
    """a command is not executed for longer than this [s]"""
    also: tuple[TakeoverPart, ...] = ()
    """further topics, of the actions that this one does not carry; one of velocities or efforts alone may
    fall silent: after half of silent_s they are 0"""

    @property
    def by_place(self) -> dict[str, OperatorInput]:
        """All topics, by their place in the contract."""
        also = {f"takeover.also.{place}": part for place, part in enumerate(self.also)}
        return {"takeover": self, **also}

    def share(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the actions of each topic, this one first. names: of all actions, in their order.

        Raises ValueError unless each action is carried by one topic, and each topic carries some.
        """
        apart = [name for part in self.also for name in part.actions]
        require_unique(apart, "takeover.also")
        if unknown := [name for name in apart if name not in names]:
            raise ValueError(f"takeover.also: found {', '.join(unknown)}, expected actions")
        own = tuple(name for name in names if name not in apart)
        if not own:
            raise ValueError(f"takeover.also: found every action, expected some that {self.topic} carries")
        return [own, *(part.actions for part in self.also)]


OperatorInput = StopInput | TakeoverInput | TakeoverPart | InstructionInput
