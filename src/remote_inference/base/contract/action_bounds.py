# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract's bounds of actions: of a single one, and of the seven of a pose."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from remote_inference.base.contract.action_kinds import LimitKind
from remote_inference.base.contract.fields import Bound, Finite, Name, Positive, require_unique
from remote_inference.base.contract.policy_units import PolicyRotation, is_degree
from remote_inference.base.documents.document import Document

# -- Poses: seven actions that are one target of a Cartesian controller -----------------------------------


AXES = ("x", "y", "z")
RelativeTo = Literal["chunk_start", "previous"]
TO = Field(
    description="chunk_start: each action counts from where the robot was measured at the observation; "
    "previous: the first one does, and each other one counts from the one before it"
)


class RelativePose(Document):
    """A pose whose actions are motions."""

    to: Annotated[RelativeTo, TO]
    frame: Literal["tool", "base"]
    """in which an action's motion is said. tool: the pose's own, as with UMI: T = T_before * T_row; base:
    that of the pose's numbers: the position is added, and the rotation comes after the one before, about the
    base's axes"""


class PoseAction(Document):
    """One pose: its actions, the box that its position stays in, and its speeds."""

    position: tuple[Name, Name, Name]
    """the three actions that are x, y and z, in this order"""
    quaternion: tuple[Name, Name, Name, Name]
    """the four actions that are x, y, z and w of the orientation, in this order, as in ROS"""
    min: tuple[Finite, Finite, Finite]
    """lowest x, y and z that are commanded, a corner of a box [m]"""
    max: tuple[Finite, Finite, Finite]
    """highest x, y and z that are commanded, above min [m]"""
    max_velocity: Positive
    """bound on the way of the command, along the straight line [m/s]"""
    max_angular_velocity: Positive
    """bound on the turn of the command, along the shortest arc [rad/s]"""
    max_acceleration: Bound | None = None
    """bound on the change of its velocity, in any direction; left out: none [m/s2]"""
    max_angular_acceleration: Bound | None = None
    """the same of its angular velocity; left out: none [rad/s2]"""
    max_jerk: Bound | None = None
    """bound on the change of its acceleration; left out: none [m/s3]"""
    max_angular_jerk: Bound | None = None
    """the same of its angular acceleration; left out: none [rad/s3]"""
    max_following_error: Positive | None = None
    """distance from its command beyond which a pose does not follow it; left out: its way in 0.25 s at
    max_velocity [m]"""
    max_following_angle: Positive | None = None
    """the same for the angle; left out: its turn in 0.25 s at max_angular_velocity [rad]"""

    relative: RelativePose | None = None
    """the policy says motions instead of poses; left out: poses"""
    rotation: PolicyRotation | None = None
    """what the policy has in place of the quaternion; left out: the quaternion"""

    @model_validator(mode="after")
    def _consistent(self) -> PoseAction:
        require_unique(self.names, "position and quaternion")
        for axis, low, high in zip(AXES, self.min, self.max, strict=True):
            if low >= high:
                raise ValueError(f"found min {low} and max {high} of {axis}, expected min < max")
        _require_both(self, "max_acceleration", "max_jerk")
        _require_both(self, "max_angular_acceleration", "max_angular_jerk")
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


def _require_both(bounds: Document, acceleration: str, jerk: str) -> None:
    """Raise ValueError for a bound of jerk without one of acceleration. acceleration, jerk: their keys."""
    if getattr(bounds, jerk) is not None and getattr(bounds, acceleration) is None:
        raise ValueError(f"found {jerk} without {acceleration}, expected both or {acceleration} alone")


GRIPPER_WORDS = ("gripper", "finger", "jaw", "claw", "knuckle")


def is_gripper(name: str) -> bool:
    """Return whether a joint is a gripper's, by its name."""
    return any(word in name.lower() for word in GRIPPER_WORDS)


class JointLimit(Document):
    """Bounds of one action. `unit` is set where the unit is not that of the kind.

    A switch has thresholds instead of a velocity: its command is `min` or `max`, and nothing between.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"kind": {"const": "switch"}}, "required": ["kind"]},
            "then": {
                "required": ["closes_above", "opens_below"],
                "properties": {
                    "max_velocity": False,
                    "max_acceleration": False,
                    "max_jerk": False,
                    "max_deceleration": False,
                    "max_following_error": False,
                    "max_measured_velocity": False,
                    "wraps": False,
                },
            },
            "else": {
                "required": ["max_velocity"],
                "properties": {"closes_above": False, "opens_below": False, "dwell_s": False},
            },
        }
    )

    kind: LimitKind | None = None
    """what this action commands; left out: actions.kind"""
    min: Finite
    """lowest command; a switch that is open [unit of the action]"""
    max: Finite
    """highest command, above min; a switch that is closed [unit of the action]"""
    max_velocity: Annotated[Positive | None, Field(validate_default=True)] = None
    """bound on the change of the command, required but for switches [unit/s]"""
    max_acceleration: Bound | None = None
    """position and velocity actions: bound on the change of the command's velocity, which every source obeys;
    left out: none [unit/s2, of a velocity unit/s]"""
    max_jerk: Bound | None = None
    """bound on the change of that acceleration, with max_acceleration; left out: none [unit/s3, of a velocity
    unit/s2]"""
    max_deceleration: Bound | None = None
    """position and velocity actions: how fast the command slows down when nothing is left to execute; left
    out: at once, as fast as the drive can [unit/s2, of a velocity unit/s]"""
    max_following_error: Annotated[
        Positive | Annotated[Literal["off"], WithJsonSchema({"enum": ["off", False]})] | None,
        BeforeValidator(lambda value: "off" if value is False else value),  # YAML 1.1 reads the word as false
    ] = None
    """position actions: distance from its command beyond which a joint does not follow it [unit]; left out:
    its way in 0.25 s at max_velocity; off: never, for grippers, which close on objects"""
    max_measured_velocity: Positive | None = None
    """position actions: fastest that a hand or a drive moves the joint, beyond which its measurements are not
    believed at once [unit/s]; left out: 3 rad/s or 1 m/s, or 1.5 times max_velocity where that is more"""
    wraps: bool = False
    """position actions [rad]: the joint is continuous, and is measured modulo one turn, from -pi to pi for
    example"""
    closes_above: Finite | None = None
    """switches, required: a number above it closes the switch [unit of the action]"""
    opens_below: Finite | None = None
    """switches, required: a number below it opens the switch; what is between the two leaves it [unit of the
    action]"""
    dwell_s: Annotated[float | None, Field(ge=0.0, le=60.0)] = None
    """switches: a change waits until this time after the one before; left out: 0 [s]"""
    unit: Name | None = None
    """unit of the action; left out: rad, rad/s or Nm, by the kind; none for a switch"""

    @field_validator("max_velocity", mode="after")
    @classmethod
    def _is_bounded(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is None and info.data.get("kind", "switch") != "switch":
            raise ValueError("missing, expected bound on the change of the command [unit/s]")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> JointLimit:
        if self.min >= self.max:
            raise ValueError(f"found min {self.min} and max {self.max}, expected min < max")
        _require_both(self, "max_acceleration", "max_jerk")
        of_switches = ("closes_above", "opens_below", "dwell_s")
        if self.kind == "switch":
            self._check_switch()
        elif found := [key for key in of_switches if getattr(self, key) is not None]:
            raise ValueError(f"found {', '.join(found)} without kind: switch, expected it with a switch only")
        return self

    @field_validator("unit", mode="after")
    @classmethod
    def _is_no_degree(cls, value: str | None) -> str | None:
        if value is not None and is_degree(value):
            raise ValueError(
                f"found {value}, expected limits in rad or rad/s, as ROS has angles: the policy's degrees "
                "stand in scale"
            )
        return value

    def _check_switch(self) -> None:
        velocity = ["max_velocity"] if self.max_velocity is not None else []
        if found := [*velocity, *self.of_accelerations, *self.of_positions]:
            raise ValueError(f"found {', '.join(found)} with a switch, which does not move, expected none")
        if self.closes_above is None or self.opens_below is None:
            missing = "closes_above" if self.closes_above is None else "opens_below"
            raise ValueError(f"{missing}: missing, expected closes_above and opens_below with a switch")
        if self.opens_below >= self.closes_above:
            raise ValueError(
                f"found opens_below {self.opens_below} and closes_above {self.closes_above}, "
                "expected opens_below < closes_above"
            )
        # Its own commands must lead a switch to where they are, and never to the other side.
        if not self.min < self.opens_below < self.closes_above < self.max:
            raise ValueError(
                f"found opens_below {self.opens_below} and closes_above {self.closes_above}, expected both "
                f"between min {self.min} and max {self.max}"
            )

    @property
    def of_accelerations(self) -> tuple[str, ...]:
        """The keys set here that actions with a velocity alone have: neither efforts nor switches."""
        keys = ("max_acceleration", "max_jerk", "max_deceleration")
        return tuple(key for key in keys if getattr(self, key) is not None)

    @property
    def of_positions(self) -> tuple[str, ...]:
        """The keys set here that position actions alone have."""
        keys = ("max_following_error", "max_measured_velocity", "wraps")
        return tuple(key for key in keys if getattr(self, key) not in (None, False))

    @property
    def fastest(self) -> float:
        """Bound on the change of the command [unit/s]: none for a switch."""
        return math.inf if self.max_velocity is None else self.max_velocity
