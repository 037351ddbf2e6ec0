# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract's poses: seven actions that are one target of a Cartesian controller, and its bounds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from remote_inference.core.contract.fields import Finite, Name, Positive, require_unique
from remote_inference.core.contract.policy_units import PolicyRotation
from remote_inference.core.documents.document import Document

AXES = ("x", "y", "z")
RelativeTo = Literal["chunk_start", "previous"]
TO = Field(
    description="chunk_start: each row counts from where the robot was measured at the observation; "
    "previous: the first row does, and each other one counts from the row before it"
)


class RelativePose(Document):
    """A pose whose rows are motions."""

    to: Annotated[RelativeTo, TO]
    frame: Annotated[
        Literal["tool", "base"],
        Field(
            description="in which a row's motion is said. tool: the pose's own, as with UMI: T = T_before * "
            "T_row; base: that of the pose's numbers: the position is added, and the rotation comes after "
            "the one before, about the base's axes"
        ),
    ]


class PoseAction(Document):
    """One pose: its actions, the box that its position stays in, and its speeds."""

    position: Annotated[
        tuple[Name, Name, Name], Field(description="the three actions that are x, y and z, in this order")
    ]
    quaternion: Annotated[
        tuple[Name, Name, Name, Name],
        Field(
            description="the four actions that are x, y, z and w of the orientation, in this order, as in ROS"
        ),
    ]
    min: Annotated[
        tuple[Finite, Finite, Finite],
        Field(description="lowest x, y and z that are commanded, a corner of a box [m]"),
    ]
    max: Annotated[
        tuple[Finite, Finite, Finite],
        Field(description="highest x, y and z that are commanded, above min [m]"),
    ]
    max_velocity: Annotated[
        Positive, Field(description="bound on the way of the command, along the straight line [m/s]")
    ]
    max_angular_velocity: Annotated[
        Positive, Field(description="bound on the turn of the command, along the shortest arc [rad/s]")
    ]
    max_following_error: Annotated[
        Positive | None,
        Field(
            description="distance from its command beyond which a pose does not follow it; left out: its "
            "way in 0.25 s at max_velocity [m]"
        ),
    ] = None
    max_following_angle: Annotated[
        Positive | None,
        Field(
            description="the same for the angle; left out: its turn in 0.25 s at max_angular_velocity [rad]"
        ),
    ] = None

    relative: Annotated[
        RelativePose | None,
        Field(description="the policy says motions instead of poses; left out: poses"),
    ] = None
    rotation: Annotated[
        PolicyRotation | None,
        Field(description="what the policy has in place of the quaternion; left out: the quaternion"),
    ] = None

    @model_validator(mode="after")
    def _consistent(self) -> PoseAction:
        require_unique(self.names, "position and quaternion")
        for axis, low, high in zip(AXES, self.min, self.max, strict=True):
            if low >= high:
                raise ValueError(f"found min {low} and max {high} of {axis}, expected min < max")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The seven actions: those of the position, then those of the quaternion."""
        return (*self.position, *self.quaternion)

    def bounds_of(self, name: str) -> tuple[float, float, float]:
        """Return min, max and change per second that the pose's bounds come to for one of its actions."""
        if name in self.position:
            place = self.position.index(name)
            return self.min[place], self.max[place], self.max_velocity
        return -1.0, 1.0, 0.5 * self.max_angular_velocity  # a quaternion turns by half of the angle
