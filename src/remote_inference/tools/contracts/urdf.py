# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads the joints of a URDF, the XML file that describes a robot's links and joints, and their limits.

A DOCTYPE is refused, and with it every entity: a few lines of them can stand for billions of characters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from xml.parsers import expat

from remote_inference.base.contract.action_kinds import ACTION_KINDS, MOTIONS
from remote_inference.base.contract.generated import unknown_limit
from remote_inference.base.documents.document import DocumentError, mark
from remote_inference.base.documents.problems import show_value

MAX_BYTES = 16 << 20
JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
MOVED_BY_ONE_NUMBER = ("revolute", "continuous", "prismatic")
MOTION = ("velocity", "acceleration", "deceleration", "jerk")  # what bounds it, in JointLimits, too
JointLimits = Mapping[str, Mapping[str, object]]  # by joint: `joint_limits` of ros2_control, MoveIt


@dataclass
class UrdfJoint:
    """One joint, in rad, m, s, Nm and N. A limit that the URDF does not give is None."""

    kind: str
    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    effort: float | None = None
    acceleration: float | None = None  # this and the two below from version 1.2 on
    deceleration: float | None = None
    jerk: float | None = None
    mimics: str = ""  # the joint that it follows; empty: it moves by itself

    @property
    def is_free(self) -> bool:
        """Whether a controller can command the joint by itself, with one number."""
        return self.kind in MOVED_BY_ONE_NUMBER and not self.mimics

    @property
    def is_linear(self) -> bool:
        return self.kind == "prismatic"

    @property
    def units(self) -> dict[str, str]:
        """The unit of a command of each kind."""
        kinds = {kind: ACTION_KINDS[kind] for kind in MOTIONS}
        return {kind: one.linear_unit if self.is_linear else one.unit for kind, one in kinds.items()}


@dataclass(frozen=True)
class Urdf:
    """A robot's name and its joints by name, in the file's order."""

    robot: str
    joints: Mapping[str, UrdfJoint]


def parse_urdf(text: str | bytes, source: str) -> Urdf:
    """Return the joints of a URDF; `source` names the text in errors. Raises DocumentError."""
    if len(text) > MAX_BYTES:
        raise DocumentError(f"{source}: found {len(text)} characters, expected at most {MAX_BYTES}")
    return _Reader(source).read(text)


@dataclass
class _Reader:
    """Takes the elements as they come; those of `<robot><joint>` count, at that depth only."""

    source: str
    path: list[str] = field(default_factory=list)  # of the open elements
    robot: str = ""
    joints: dict[str, UrdfJoint] = field(default_factory=dict)
    name: str = ""  # of the open joint

    def read(self, text: str | bytes) -> Urdf:
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = lambda _name: self.path.pop()
        try:
            parser.Parse(text, True)
        except (expat.ExpatError, LookupError, ValueError) as error:
            raise DocumentError(f"{self.source}: is not valid XML: {error}") from None
        return Urdf(self.robot, self.joints)

    def _refuse_doctype(self, *_: object) -> None:
        raise DocumentError(f"{self.source}: found a DOCTYPE, expected none in a URDF")

    def _begin(self, element: str, attributes: dict[str, str]) -> None:
        if element.startswith("xacro:"):
            raise DocumentError(f"{self.source}: found {show_value(element)}, expected the output of xacro")
        self.path.append(element)
        if len(self.path) == 1:
            if element != "robot":
                raise DocumentError(f"{self.source}: found {show_value(element)}, expected <robot>")
            self.robot = attributes.get("name", "")
        elif self.path[1:] == ["joint"]:
            self._begin_joint(attributes)
        elif self.path[1:] == ["joint", "limit"]:
            joint = self.joints[self.name]
            for key in ("lower", "upper", "effort", *MOTION):
                setattr(joint, key, self._number(key, attributes.get(key)))
        elif self.path[1:] == ["joint", "mimic"]:
            if not attributes.get("joint"):
                raise DocumentError(f"{self.source}: joint {show_value(self.name)}: mimic names no joint")
            self.joints[self.name].mimics = attributes["joint"]

    def _begin_joint(self, attributes: dict[str, str]) -> None:
        self.name, kind = attributes.get("name", ""), attributes.get("type", "")
        if not self.name:
            raise DocumentError(f"{self.source}: found a joint without a name, expected one")
        where = f"{self.source}: joint {show_value(self.name)}"
        if self.name in self.joints:
            raise DocumentError(f"{where}: found twice, expected unique names")
        if kind not in JOINT_TYPES:
            raise DocumentError(f"{where}: found type {show_value(kind)}, expected {', '.join(JOINT_TYPES)}")
        self.joints[self.name] = UrdfJoint(kind)

    def _number(self, key: str, text: str | None) -> float | None:
        """Return a number; infinity and NaN, with which some files say "no limit", are none."""
        if text is None:
            return None
        try:
            number = float(text)
        except ValueError:
            where = f"{self.source}: joint {show_value(self.name)}: {key}"
            raise DocumentError(f"{where}: found {show_value(text)}, expected a number") from None
        return number if math.isfinite(number) else None


# -- The limits of a joint's actions, as far as its URDF gives them --------------------------------------


def find_joint_limits(content: object) -> JointLimits:
    """Return what stands under `joint_limits`: at the top, as MoveIt has it, or below a node's name."""
    found: dict[str, dict[str, object]] = {}
    for key, section in content.items() if isinstance(content, dict) else ():
        entries = section if key == "joint_limits" else find_joint_limits(section)
        if isinstance(entries, dict):
            found |= {joint: entry for joint, entry in entries.items() if isinstance(entry, dict)}
    return found


def tighten(urdf: Urdf, limits: JointLimits, source: str, notes: list[str]) -> Urdf:
    """Return a URDF with the smaller of its own bounds of motion and those of a `joint_limits`.

    A `max_...` counts with its `has_..._limits` alone. notes: gets a line for each bound that is taken, and
    for each that is none.
    """
    joints = dict(urdf.joints)
    for name in filter(limits.__contains__, urdf.joints):
        joint = joints[name] = replace(joints[name])
        for key in MOTION:
            if limits[name].get(f"has_{key}_limits") is not True:
                continue
            found, place = limits[name].get(f"max_{key}"), f"max_{key} of {name}: {source}"
            bound = abs(found) if isinstance(found, int | float) else 0.0  # MoveIt slows down by less than 0
            if not 0.0 < bound < math.inf:
                notes.append(f"{place} says {show_value(found)}, which is left out")
            elif bound < (getattr(joint, key) or math.inf):
                setattr(joint, key, bound)
                notes.append(f"{place} says {bound:g}, which is the smaller")
    return replace(urdf, joints=joints)


def suggest_limit(urdf: Urdf | None, name: str, kind: str) -> dict[str, Any]:
    """Return the limit of one action, marked where the URDF does not give it.

    kind: of the actions, "position", "velocity", "effort", or empty when it is not known.
    """
    if urdf is None:
        return unknown_limit(kind, "no URDF was found")
    if (joint := urdf.joints.get(name)) is None:
        return unknown_limit(kind, "the URDF has no joint of this name")
    units = joint.units
    if kind:
        limit = _position(joint, units) if kind == "position" else _rate(joint, kind, units)
        limit |= _accelerations(joint) if kind != "effort" else {}
    else:
        limit = unknown_limit("", f"the URDF says {_describe(joint)}")
    if joint.is_linear:
        limit["unit"] = units[kind] if kind else mark("m, m/s or N, by the kind")
    return limit


def _describe(joint: UrdfJoint) -> str:
    """Return what the URDF gives, for a person who has to say the kind first."""
    units = joint.units
    parts = [joint.kind]
    if joint.lower is not None and joint.upper is not None and joint.kind != "continuous":
        parts.append(f"position {joint.lower:g} to {joint.upper:g} {units['position']}")
    if joint.velocity is not None:
        parts.append(f"velocity {joint.velocity:g} {units['velocity']}")
    if joint.effort is not None:
        parts.append(f"effort {joint.effort:g} {units['effort']}")
    return ", ".join(parts)


def _position(joint: UrdfJoint, units: dict[str, str]) -> dict[str, Any]:
    unit = units["position"]
    lower, upper = joint.lower, joint.upper
    limit = unknown_limit("position", "the URDF has none", unit)
    if joint.kind == "continuous":
        why = "a continuous joint has none in the URDF: choose a range that its cables and this task allow"
        limit = unknown_limit("position", why, unit)
    elif lower is not None and upper is not None:
        if lower < upper:
            limit |= {"min": lower, "max": upper}
        else:
            limit = unknown_limit("position", f"the URDF says {lower:g} to {upper:g}", unit)
    found = "has none" if joint.velocity is None else f"says {joint.velocity:g}"
    unknown = mark(f"bound on the change of the command [{unit}/s]; the URDF {found}")
    limit["max_velocity"] = joint.velocity if joint.velocity and joint.velocity > 0.0 else unknown
    return limit


def _accelerations(joint: UrdfJoint) -> dict[str, float]:
    """Return the bounds beyond that of the velocity; a contract has one of jerk with one of acceleration."""
    known = {f"max_{key}": bound for key in MOTION[1:] if (bound := getattr(joint, key) or 0.0) > 0.0}
    return {key: known[key] for key in known if key != "max_jerk" or "max_acceleration" in known}


def _rate(joint: UrdfJoint, kind: str, units: dict[str, str]) -> dict[str, Any]:
    """Return the limit of a velocity or an effort: as much both ways, as URDF means it."""
    unit = units[kind]
    bound = joint.velocity if kind == "velocity" else joint.effort
    if bound is None or not 0.0 < bound < math.inf:
        found = "has none" if bound is None else f"says {bound:g}"
        return unknown_limit(kind, f"the URDF {found}", unit)
    change = bound if kind == "velocity" else mark(f"bound on the change of the command [{unit}/s]")
    return {"min": -bound, "max": bound, "max_velocity": change}
