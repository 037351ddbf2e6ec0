# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads the joints of a URDF, the XML file that describes a robot's links and joints.

A DOCTYPE is refused, and with it every entity: a few lines of them can stand for billions of characters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

from remote_inference.core.documents.problems import show_value
from remote_inference.errors import UserError

MAX_BYTES = 16 << 20
KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
MOVED_BY_ONE_NUMBER = ("revolute", "continuous", "prismatic")


class UrdfError(UserError):
    """A text is no URDF; the message says where, what was found and what was expected."""


@dataclass
class UrdfJoint:
    """One joint, in rad, m, s, Nm and N. A limit that the URDF does not give is None."""

    kind: str
    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    effort: float | None = None
    mimics: str = ""  # the joint that it follows; empty: it moves by itself

    @property
    def is_free(self) -> bool:
        """Whether a controller can command the joint by itself, with one number."""
        return self.kind in MOVED_BY_ONE_NUMBER and not self.mimics

    @property
    def is_linear(self) -> bool:
        return self.kind == "prismatic"


@dataclass(frozen=True)
class Urdf:
    """A robot's name and its joints by name, in the file's order."""

    robot: str
    joints: Mapping[str, UrdfJoint]


def parse_urdf(text: str | bytes, source: str) -> Urdf:
    """Return the joints of a URDF; `source` names the text in errors. Raises UrdfError."""
    if len(text) > MAX_BYTES:
        raise UrdfError(f"{source}: found {len(text)} characters, expected at most {MAX_BYTES}")
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
            raise UrdfError(f"{self.source}: is not valid XML: {error}") from None
        return Urdf(self.robot, self.joints)

    def _refuse_doctype(self, *_: object) -> None:
        raise UrdfError(f"{self.source}: found a DOCTYPE, expected none in a URDF")

    def _begin(self, element: str, attributes: dict[str, str]) -> None:
        if element.startswith("xacro:"):
            raise UrdfError(f"{self.source}: found {show_value(element)}, expected the output of xacro")
        self.path.append(element)
        if len(self.path) == 1:
            if element != "robot":
                raise UrdfError(f"{self.source}: found {show_value(element)}, expected <robot>")
            self.robot = attributes.get("name", "")
        elif self.path[1:] == ["joint"]:
            self._begin_joint(attributes)
        elif self.path[1:] == ["joint", "limit"]:
            joint = self.joints[self.name]
            for key in ("lower", "upper", "velocity", "effort"):
                setattr(joint, key, self._number(key, attributes.get(key)))
        elif self.path[1:] == ["joint", "mimic"]:
            if not attributes.get("joint"):
                raise UrdfError(f"{self.source}: joint {show_value(self.name)}: mimic names no joint")
            self.joints[self.name].mimics = attributes["joint"]

    def _begin_joint(self, attributes: dict[str, str]) -> None:
        self.name, kind = attributes.get("name", ""), attributes.get("type", "")
        if not self.name:
            raise UrdfError(f"{self.source}: found a joint without a name, expected one")
        where = f"{self.source}: joint {show_value(self.name)}"
        if self.name in self.joints:
            raise UrdfError(f"{where}: found twice, expected unique names")
        if kind not in KINDS:
            raise UrdfError(f"{where}: found type {show_value(kind)}, expected {', '.join(KINDS)}")
        self.joints[self.name] = UrdfJoint(kind)

    def _number(self, key: str, text: str | None) -> float | None:
        """Return a number; infinity and NaN, with which some files say "no limit", are none."""
        if text is None:
            return None
        try:
            number = float(text)
        except ValueError:
            where = f"{self.source}: joint {show_value(self.name)}: {key}"
            raise UrdfError(f"{where}: found {show_value(text)}, expected a number") from None
        return number if math.isfinite(number) else None
