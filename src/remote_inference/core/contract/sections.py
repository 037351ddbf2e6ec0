# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract's sections about cameras, actions and controllers; `state_source` has the state's."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from remote_inference.core.contract.command_interfaces import (
    Kind,
    LimitKind,
    MotionKind,
)
from remote_inference.core.contract.fields import (
    Finite,
    Name,
    Names,
    NodeName,
    Positive,
    Topic,
    require_unique,
)
from remote_inference.core.contract.image_encodings import BY_COLOUR, IMAGE_ENCODINGS, RAW, Colour
from remote_inference.core.contract.policy_units import (
    QUATERNION,
    Scale,
    Turned,
    UnitMap,
    check_scales,
    scales_by_name,
)
from remote_inference.core.contract.pose_action import TO, PoseAction, RelativeTo
from remote_inference.core.documents.document import Document, DocumentError, NameIn, parse_document

JOINT_STATE = "sensor_msgs/msg/JointState"
RELATIVE = "relative_"  # before the kind of an action of which the policy says differences
IMAGE = "sensor_msgs/msg/Image"
COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"
GRIPPER_WORDS = ("gripper", "finger", "jaw", "claw")
# By the kind of the actions; a pose's positions have metres.
UNITS = {"position": "rad", "velocity": "rad/s", "effort": "Nm", "switch": "", "pose": ""}
Controllers = tuple[Annotated[str, Field(min_length=1)], ...]


class ControllerSwitch(Document):
    """Which controllers the command watchdog wants to run in place of which others."""

    controller_manager: Annotated[
        NodeName,
        Field(description="node of the controller manager, relative to the robot's namespace"),
    ] = "controller_manager"
    activate: Annotated[
        Controllers, Field(description="controllers to activate, for example one that holds the arm")
    ] = ()
    deactivate: Annotated[
        Controllers, Field(description="controllers to deactivate: those that `commands` feeds")
    ] = ()

    @model_validator(mode="after")
    def _names_controllers(self) -> ControllerSwitch:
        if not self.activate and not self.deactivate:
            raise ValueError("found no controller in activate and deactivate, expected one at least")
        if both := sorted(set(self.activate) & set(self.deactivate)):
            raise ValueError(f"found {', '.join(both)} in activate and in deactivate, expected one of them")
        return self


def is_gripper(name: str) -> bool:
    """Return whether a joint is a gripper's, by its name."""
    return any(word in name.lower() for word in GRIPPER_WORDS)


def _read_off(value: Any) -> Any:
    return "off" if value is False else value  # YAML 1.1 reads the word as false


class ImageSource(Document):
    """One camera. `jpeg_quality` 0: its images travel unencoded. Encoded images pass through."""

    topic: Topic
    type: Annotated[
        Literal["sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"],
        Field(description="message type of the topic; a CompressedImage that is JPEG is passed through"),
    ]
    colour: Annotated[Colour, Field(description="depth: 16 bit, travels as PNG, without loss")] = "rgb"
    jpeg_quality: Annotated[
        int,
        Field(ge=0, le=100, description="quality of the robot's JPEG encoder; 0: an Image travels unencoded"),
    ] = 90

    encoding: Annotated[
        Annotated[str, NameIn(IMAGE_ENCODINGS)] | None,
        Field(
            description="how its images travel, instead of jpeg_quality; left out: rgb as JPEG, depth as PNG"
        ),
    ] = None
    options: Annotated[
        Mapping[str, Any], Field(description="what the encoding asks for, with keys of its own")
    ] = {}

    @model_validator(mode="after")
    def _encoding_fits(self) -> ImageSource:
        if self.encoding is None:
            if self.options:
                raise ValueError(f"options: found {dict(self.options)}, expected them with `encoding`")
            return self
        if "jpeg_quality" in self.model_fields_set:
            found = f"encoding: found {self.encoding!r} and jpeg_quality"
            raise ValueError(f"{found}, expected one of the two: `options` holds what an encoding asks for")
        colours = IMAGE_ENCODINGS.get(self.encoding).colours
        if self.colour not in colours:
            expected = f"expected one that carries it: {self.encoding} carries {' and '.join(colours)}"
            raise ValueError(f"encoding: found {self.encoding!r} for {self.colour}, {expected}")
        try:
            self.read_options()
        except DocumentError as error:
            raise ValueError(str(error)) from None
        return self

    def read_options(self) -> Document:
        """Return the options as the encoding's own document. Raises DocumentError naming the key."""
        content = dict(self.options)
        if self.encoding is None and self.colour == "rgb":
            content = {"quality": self.jpeg_quality}
        return parse_document(content, IMAGE_ENCODINGS.get(self.travels_as).options, "options")

    @property
    def travels_as(self) -> str:
        """Encoding in which the image travels: a name of IMAGE_ENCODINGS, or "raw"."""
        if self.encoding is None and self.type == IMAGE and self.jpeg_quality == 0:
            return RAW
        return self.encoding or BY_COLOUR[self.colour]

    @property
    def is_encoded_here(self) -> bool:
        """Whether the robot encodes the images: they come as an Image, and do not travel as one."""
        return self.type == IMAGE and self.travels_as != RAW


class JointLimit(Document):
    """Bounds of one action. `unit` is set where the unit is not that of the kind.

    A switch has thresholds instead of a velocity: its command is `min` or `max`, and nothing between.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"kind": {"const": "switch"}}, "required": ["kind"]},
            "then": {
                "required": ["closes_above", "opens_below"],
                "properties": {"max_velocity": False, "max_following_error": False},
            },
            "else": {
                "required": ["max_velocity"],
                "properties": {"closes_above": False, "opens_below": False, "dwell_s": False},
            },
        }
    )

    kind: Annotated[
        LimitKind | None, Field(description="what this action commands; left out: actions.kind")
    ] = None
    min: Annotated[Finite, Field(description="lowest command; a switch that is open [unit of the action]")]
    max: Annotated[
        Finite, Field(description="highest command, above min; a switch that is closed [unit of the action]")
    ]
    max_velocity: Annotated[
        Positive | None,
        Field(
            description="bound on the change of the command, required but for switches [unit/s]",
            validate_default=True,
        ),
    ] = None
    max_following_error: Annotated[
        Positive | Annotated[Literal["off"], WithJsonSchema({"enum": ["off", False]})] | None,
        BeforeValidator(_read_off),
        Field(
            description="position actions: distance from its command beyond which a joint does not follow it "
            "[unit]; left out: its way in 0.25 s at max_velocity; off: never, for grippers, which close on "
            "objects"
        ),
    ] = None
    closes_above: Annotated[
        Finite | None,
        Field(description="switches, required: a number above it closes the switch [unit of the action]"),
    ] = None
    opens_below: Annotated[
        Finite | None,
        Field(
            description="switches, required: a number below it opens the switch; what is between the two "
            "leaves it [unit of the action]"
        ),
    ] = None
    dwell_s: Annotated[
        float | None,
        Field(
            ge=0.0,
            le=60.0,
            description="switches: a change waits until this time after the one before; left out: 0 [s]",
        ),
    ] = None
    unit: Annotated[
        Name | None,
        Field(description="unit of the action; left out: rad, rad/s or Nm, by the kind; none for a switch"),
    ] = None

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
        of_switches = {
            "closes_above": self.closes_above,
            "opens_below": self.opens_below,
            "dwell_s": self.dwell_s,
        }
        if self.kind == "switch":
            self._check_switch()
        elif found := [key for key, value in of_switches.items() if value is not None]:
            raise ValueError(f"found {', '.join(found)} without kind: switch, expected it with a switch only")
        return self

    def _check_switch(self) -> None:
        of_motions = {"max_velocity": self.max_velocity, "max_following_error": self.max_following_error}
        if found := [key for key, value in of_motions.items() if value is not None]:
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
    def fastest(self) -> float:
        """Bound on the change of the command [unit/s]: none for a switch."""
        return math.inf if self.max_velocity is None else self.max_velocity


class RelativePositions(Document):
    """Position actions whose rows are differences, in the policy's unit."""

    to: Annotated[RelativeTo, TO]
    names: Annotated[Names, Field(description="of the position actions, those whose rows are differences")]


class Actions(Document):
    """The action vector: `[action_dim]` in the order of `names`, which must be the policy's after rename."""

    kind: Annotated[
        MotionKind,
        Field(
            description="what an action commands that belongs to no pose, where its entry in limits does not "
            "say another kind"
        ),
    ]
    names: Annotated[
        Names, Field(description="action vector; after rename equal to the policy's, order included")
    ]
    limits: Annotated[
        Mapping[str, JointLimit],
        Field(description="bounds by action; one entry for each of names that belongs to no pose"),
    ] = {}
    poses: Annotated[
        Mapping[Name, PoseAction],
        Field(description="targets of Cartesian controllers, by a name that states and logs give each"),
    ] = {}
    scale: Annotated[
        tuple[Scale, ...],
        Field(description="actions that the policy has in another unit than the command and its limits"),
    ] = ()
    relative: Annotated[
        RelativePositions | None,
        Field(description="position actions of which the policy says differences; left out: none"),
    ] = None

    @model_validator(mode="after")
    def _limits_cover_names(self) -> Actions:
        require_unique(self.names, "names")
        self._check_poses()
        own = [name for name in self.names if name not in self._pose_names]
        if missing := [name for name in own if name not in self.limits]:
            raise ValueError(f"limits has no entry for {', '.join(missing)}, expected one for each of names")
        if unknown := [name for name in self.limits if name not in own]:
            raise ValueError(f"limits names {', '.join(unknown)}, expected only names of actions.names")
        for name in own:
            kind, limit = self.kind_of(name), self.limits[name]
            if kind not in ("position", "switch") and not limit.min <= 0.0 <= limit.max:
                raise ValueError(
                    f"limits.{name}: found {limit.min} to {limit.max} for {kind} actions, "
                    "expected a range with 0, which stops the joint"
                )
            if kind != "position" and limit.max_following_error is not None:
                raise ValueError(
                    f"limits.{name}: found max_following_error with {kind} actions, "
                    "expected it with position actions only"
                )
        check_scales(self.scale, {name: self._quantity(name) for name in self.names})
        self.check_angles("scale", self.scale, self.names)
        self._check_relative()
        return self

    def _check_relative(self) -> None:
        if self.relative is not None:
            require_unique(self.relative.names, "relative.names")
            if others := [name for name in self.relative.names if name not in self.positions]:
                raise ValueError(
                    f"relative.names: found {', '.join(others)}, expected position actions: "
                    f"{', '.join(self.positions) or 'there are none'}"
                )
        scales = scales_by_name(self.scale)
        for title, pose in self.poses.items():
            lengths = {scales[name].line[0] if name in scales else 1.0 for name in pose.position}
            if pose.relative is not None and pose.relative.frame == "tool" and len(lengths) > 1:
                raise ValueError(
                    f"poses.{title}.relative: found x, y and z in several units, expected one: a motion of "
                    "the tool turns with it"
                )

    def _check_poses(self) -> None:
        seen: dict[str, str] = {}
        for title, pose in self.poses.items():
            if title in self.names:
                raise ValueError(f"poses.{title}: found the name of an action, expected another for the pose")
            for key, names in (("position", pose.position), ("quaternion", pose.quaternion)):
                if unknown := [name for name in names if name not in self.names]:
                    raise ValueError(
                        f"poses.{title}.{key}: found {', '.join(unknown)}, expected names of actions.names"
                    )
            for name in pose.names:
                if (other := seen.setdefault(name, title)) != title:
                    raise ValueError(f"poses: found {name} in {other} and {title}, expected it in one pose")
                if name in self.limits:
                    raise ValueError(
                        f"limits.{name}: found an entry for {name} of the pose {title}, expected none: "
                        f"poses.{title} has its bounds"
                    )

    def check_angles(self, where: str, scales: Sequence[Scale], names: Collection[str]) -> None:
        """Raise ValueError, naming `where`, for degrees of an action whose limits are not in radians.

        names: the actions of whose numbers the scales are.
        """
        for index, scale in enumerate(scales):
            for name in scale.names if scale.is_angular else ():
                if name in names and self.unit(name) != (usual := UNITS[self.kind_of(name)]):
                    raise ValueError(
                        f"{where}.{index}.unit: found {scale.unit} for {name}, whose limits are in "
                        f"{self.unit(name)}, expected limits in {usual}, or another unit"
                    )

    @property
    def watched_grippers(self) -> tuple[str, ...]:
        """Grippers, by their names, that count as not following when they close on an object."""
        watched = (name for name in self.positions if self.limits[name].max_following_error != "off")
        return tuple(name for name in watched if is_gripper(name))

    def unit(self, name: str) -> str:
        """Return the unit of one action, for people to read."""
        return self.limit_of(name).unit or UNITS[self.kind_of(name)]

    def kind_of(self, name: str) -> Kind:
        """Return what one action commands."""
        if name in self._pose_names:
            return "pose"
        return self.limits[name].kind or self.kind

    def limit_of(self, name: str) -> JointLimit:
        """Return the bounds of one action; those of a pose come from its box and its speeds."""
        title = self._pose_names.get(name)
        if title is None:
            return self.limits[name]
        low, high, change = self.poses[title].bounds_of(name)
        unit = "m" if name in self.poses[title].position else None
        return JointLimit(min=low, max=high, max_velocity=change, unit=unit)

    @property
    def is_relative(self) -> bool:
        """Whether the policy says of some actions how far to go, and not where to."""
        return self.relative is not None or any(pose.relative for pose in self.poses.values())

    @property
    def unit_map(self) -> UnitMap:
        """Conversion of the actions `[action_dim]` from the policy's units and forms."""
        scales = scales_by_name(self.scale)
        turned = [
            Turned(pose.rotation, tuple(self.names.index(name) for name in pose.quaternion))
            for pose in self.poses.values()
            if pose.rotation is not None
        ]
        return UnitMap([scales.get(name) for name in self.names], turned)

    @property
    def said_kinds(self) -> tuple[str, ...]:
        """What each action commands `[action_dim]`, and whether the policy says how far and not where to."""
        relative = {*(self.relative.names if self.relative else ())}
        relative |= {name for pose in self.poses.values() if pose.relative for name in pose.names}
        return tuple(
            f"{RELATIVE}{self.kind_of(name)}" if name in relative else self.kind_of(name)
            for name in self.names
        )

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What each action commands `[action_dim]`."""
        return tuple(self.kind_of(name) for name in self.names)

    @property
    def positions(self) -> tuple[str, ...]:
        """The position actions, in the order of `names`."""
        return tuple(name for name in self.names if self.kind_of(name) == "position")

    @property
    def pose_positions(self) -> tuple[str, ...]:
        """The actions that are x, y or z of a pose."""
        return tuple(name for pose in self.poses.values() for name in pose.position)

    @property
    def quaternions(self) -> tuple[str, ...]:
        """The actions that are parts of a quaternion: no number of them means anything alone."""
        return tuple(name for pose in self.poses.values() for name in pose.quaternion)

    @cached_property
    def _pose_names(self) -> Mapping[str, str]:
        """The pose of each action that belongs to one."""
        return {name: title for title, pose in self.poses.items() for name in pose.names}

    def _quantity(self, name: str) -> str:
        return QUATERNION if name in self.quaternions else self.kind_of(name)


class Home(Document):
    """Targets of positions and poses, and the time in which to reach them when DEAD."""

    positions: Annotated[
        tuple[Finite, ...],
        Field(
            description="one target for each position action, in their order, within its limits [unit of the "
            "action]"
        ),
    ] = ()
    poses: Annotated[
        Mapping[Name, tuple[Finite, Finite, Finite, Finite, Finite, Finite, Finite]],
        Field(
            description="target of each pose: x, y and z within its box [m], and x, y, z and w of a "
            "quaternion of length 1"
        ),
    ] = {}
    duration_s: Annotated[
        Positive, Field(description="time in which to reach home, unless the guard needs longer [s]")
    ]
