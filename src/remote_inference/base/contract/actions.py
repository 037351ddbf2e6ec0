# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract's section about actions: names, kinds, limits, poses and units of what the policy commands."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Annotated

from pydantic import model_validator

from remote_inference.base.contract.action_bounds import (
    AXES,
    TO,
    JointLimit,
    PoseAction,
    RelativeTo,
    is_gripper,
)
from remote_inference.base.contract.action_kinds import ACTION_KINDS, Kind, MotionKind
from remote_inference.base.contract.fields import Finite, Name, Names, Positive, require_unique
from remote_inference.base.contract.policy_units import (
    QUATERNION,
    ConvertedQuaternion,
    Scale,
    UnitMap,
    check_scales,
    scales_by_name,
)
from remote_inference.base.documents.document import Document

UNIT_LENGTH_TOLERANCE = 0.01  # of a quaternion that a person writes
RELATIVE = "relative_"  # before the kind of an action of which the policy says differences


class RelativePositions(Document):
    """Position actions that are differences, in the policy's unit."""

    to: Annotated[RelativeTo, TO]
    names: Names
    """of the position actions, those that are differences"""


class Actions(Document):
    """The action vector: `[action_dim]` in the order of `names`, which must be the policy's after rename."""

    kind: MotionKind
    """what an action commands that belongs to no pose, where its entry in limits does not say another kind"""
    names: Names
    """action vector; after rename equal to the policy's, order included"""
    limits: Mapping[str, JointLimit] = {}
    """bounds by action; one entry for each of names that belongs to no pose"""
    poses: Mapping[Name, PoseAction] = {}
    """targets of Cartesian controllers, by a name that states and logs give each"""
    scale: tuple[Scale, ...] = ()
    """actions that the policy has in another unit than the command and its limits"""
    relative: RelativePositions | None = None
    """position actions of which the policy says differences; left out: none"""

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
            if kind != "position" and (found := limit.of_positions):
                raise ValueError(
                    f"limits.{name}: found {', '.join(found)} with {kind} actions, "
                    "expected it with position actions only"
                )
            if kind == "effort" and (found := limit.of_accelerations):
                raise ValueError(
                    f"limits.{name}: found {', '.join(found)} with effort actions, expected max_velocity only"
                )
            if limit.wraps and self.unit(name) != "rad":
                raise ValueError(
                    f"limits.{name}: found wraps with {self.unit(name)}, expected a joint in rad"
                )
        quantities = {name: self.kind_of(name) for name in self.names}
        check_scales(self.scale, quantities | dict.fromkeys(self.quaternions, QUATERNION))
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
                if name in names and self.unit(name) != (usual := ACTION_KINDS[self.kind_of(name)].unit):
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
        return self.limit_of(name).unit or ACTION_KINDS[self.kind_of(name)].unit

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
            ConvertedQuaternion(pose.rotation, tuple(self.names.index(name) for name in pose.quaternion))
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


class Home(Document):
    """Targets of positions and poses, and the time in which to reach them when DEAD."""

    positions: tuple[Finite, ...] = ()
    """one target for each position action, in their order, within its limits [unit of the action]"""
    poses: Mapping[Name, tuple[Finite, Finite, Finite, Finite, Finite, Finite, Finite]] = {}
    """target of each pose: x, y and z within its box [m], and x, y, z and w of a quaternion of length 1"""
    duration_s: Positive
    """time in which to reach home, unless the guard needs longer [s]"""

    def check(self, actions: Actions) -> None:
        """Raise ValueError for targets that are not those of the actions, or outside their limits."""
        names = actions.positions
        if not names and not actions.poses:
            raise ValueError(f"home: found with {actions.kind} actions, expected positions or poses")
        if len(self.positions) != len(names):
            raise ValueError(f"home.positions has {len(self.positions)} values, expected {len(names)}")
        for name, position in zip(names, self.positions, strict=True):
            limit = actions.limits[name]
            if not limit.min <= position <= limit.max:
                raise ValueError(
                    f"home.positions: found {position} for {name}, expected {limit.min} to {limit.max}"
                )
        if (found := sorted(self.poses)) != (wanted := sorted(actions.poses)):
            raise ValueError(
                f"home.poses: found {', '.join(found) or 'none'}, expected {', '.join(wanted) or 'none'}"
            )
        for title, target in self.poses.items():
            pose = actions.poses[title]
            for axis, value, low, high in zip(AXES, target[:3], pose.min, pose.max, strict=True):
                if not low <= value <= high:
                    raise ValueError(f"home.poses.{title}: found {axis} {value}, expected {low} to {high}")
            if abs((length := math.hypot(*target[3:])) - 1.0) > UNIT_LENGTH_TOLERANCE:
                raise ValueError(
                    f"home.poses.{title}: found a quaternion of length {length:.3f}, expected length 1"
                )
