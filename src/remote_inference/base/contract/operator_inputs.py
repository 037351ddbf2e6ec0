# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract's inputs of people and safety devices: what stops the robot, commands it or instructs it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from remote_inference.base.contract.commands.sink import TAKEOVER_INTERFACES
from remote_inference.base.contract.fields import MessageType, Positive, Topic
from remote_inference.base.documents.document import Document, NameIn

BOOL = "std_msgs/msg/Bool"
LONGEST_SILENCE_S = 10.0  # milliseconds that are taken for seconds would be no stop


class StopInput(Document):
    """A topic that stops the robot, by its value or by its silence."""

    topic: Topic
    type: Annotated[
        MessageType,
        Field(description="message type of the topic; std_msgs/msg/Bool unless stop_when is silent"),
    ]
    stop_when: Annotated[
        bool | Literal["silent"],
        Field(description="true, false: the value that stops; silent: every message is a sign of life"),
    ]
    silent_s: Annotated[
        Positive | None,
        Field(
            le=LONGEST_SILENCE_S,
            description="silence that stops, too [s]; required for silent, left out: silence is no stop",
        ),
    ] = None

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
    type: Annotated[Literal["std_msgs/msg/String"], Field(description="message type of the topic")]


class TakeoverInput(Document):
    """A topic on which a person commands the robot after `takeover`."""

    topic: Topic
    type: Annotated[
        str,
        NameIn(TAKEOVER_INTERFACES),
        Field(description="JointState: by the names of the actions; Float64MultiArray: in their order"),
    ]
    silent_s: Annotated[
        Positive,
        Field(le=LONGEST_SILENCE_S, description="a command is not executed for longer than this [s]"),
    ] = 0.5


OperatorInput = StopInput | TakeoverInput | InstructionInput
