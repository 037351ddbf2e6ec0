# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The units and forms in which a policy speaks of joints and poses, where they are not the robot's.

The robot's side speaks radians and metres everywhere: sensors, limits, commands, recordings. What crosses to
the policy is in the policy's units: the state, the chunks, and the prefixes, which are rows of chunks and go
back as they came. So each number is converted once: the state right before it is sent, a row of a chunk right
before the guard checks it. So is an orientation, which is a quaternion on the robot's side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from remote_inference.base.contract.action_kinds import ACTION_KINDS
from remote_inference.base.contract.fields import Finite, Name, Names, require_unique
from remote_inference.base.documents.document import Document, NameIn
from remote_inference.base.documents.registry import Registry
from remote_inference.base.rotations import ROTATION_FORMS, RotationForm

MOST = 1e6  # of a range's ends and of a factor: beyond it, float32 would not do
DEGREE_WORDS = ("degree", "degrees", "deg", "degs", "\u00b0")  # as people write them


def is_degree(unit: str) -> bool:
    """Return whether a unit is of degrees, or of degrees per something."""
    return unit.lower().partition("/")[0].strip() in DEGREE_WORDS


LEAST = 1e-6  # of a factor, and between a range's ends
QUATERNION = "quaternion"  # the quantity of its four numbers

Float64Array = NDArray[np.float64]
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class PolicyUnit:
    """A unit that is known by its name: by its value for one radian, or by its values at a range's ends."""

    per_radian: float | None = None
    ends: tuple[float, float] | None = None


POLICY_UNITS = Registry[PolicyUnit]("unit")
POLICY_UNITS.add("degrees", PolicyUnit(per_radian=180.0 / math.pi))
POLICY_UNITS.add("percent", PolicyUnit(ends=(0.0, 100.0)))
POLICY_UNITS.add("signed_percent", PolicyUnit(ends=(-100.0, 100.0)))
POLICY_UNITS.add("fraction", PolicyUnit(ends=(0.0, 1.0)))

End = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]


class Scale(Document):
    """A group of joints that the policy has in another unit than the robot."""

    unit: Name
    """the policy's unit: degrees (per second for velocities); percent, signed_percent (-100 to 100) or
    fraction (0 to 1) of a range of positions; or another word, with its factor"""
    names: Names
    """joints of this group, of the names beside `scale`"""
    range: tuple[End, End] | None = None
    """percent, signed_percent and fraction: the robot's positions at the unit's lowest and highest value,
    which may fall [unit of the joint]"""
    factor: Finite | None = None
    """another unit: its value for one of the robot's unit, 1000 for millimetres; below 0: counts the other
    way"""
    invert: bool = False
    """degrees: counts the other way"""
    offset: Annotated[float | None, Field(ge=-MOST, le=MOST, allow_inf_nan=False)] = None
    """degrees or another unit of positions: the policy's number where the robot's is 0 [unit of the
    policy]"""

    @model_validator(mode="after")
    def _consistent(self) -> Scale:
        require_unique(self.names, "names")
        if self.unit not in POLICY_UNITS.names:
            self._check_factor()
        elif self.factor is not None:
            raise ValueError(f"factor: found with {self.unit}, expected none: the unit is known")
        if self.invert and not self.is_angular:
            instead = "a range that falls" if self.has_range else "a factor below 0"
            raise ValueError(f"invert: found with {self.unit}, expected {instead}")
        if self.offset is not None and self.has_range:
            raise ValueError(f"offset: found with {self.unit}, expected none: range says where 0 is")
        if not self.has_range:
            if self.range is not None:
                with_range = ", ".join(name for name in POLICY_UNITS.names if POLICY_UNITS.get(name).ends)
                raise ValueError(f"range: found with {self.unit}, expected it with {with_range} only")
        elif self.range is None:
            low, high = self._known.ends or (0.0, 0.0)
            expected = f"the robot's positions at {low:g} and {high:g} {self.unit}"
            raise ValueError(f"range: missing, expected {expected}")
        elif abs(self.range[1] - self.range[0]) < LEAST:
            expected = f"positions at least {LEAST:g} apart"
            raise ValueError(f"range: found {self.range[0]:g} to {self.range[1]:g}, expected {expected}")
        return self

    def _check_factor(self) -> None:
        if self.unit.lower() in DEGREE_WORDS:
            raise ValueError(f"unit: found {self.unit!r}, did you mean 'degrees'?")
        if self.factor is None:
            expected = f"{', '.join(POLICY_UNITS.names)}, or another word together with its factor"
            raise ValueError(f"unit: found {self.unit!r}, expected {expected}")
        if not LEAST <= abs(self.factor) <= MOST:
            expected = f"{LEAST:g} to {MOST:g}, or as much below 0"
            raise ValueError(f"factor: found {self.factor:g}, expected {expected}")

    @property
    def _known(self) -> PolicyUnit:
        return POLICY_UNITS.get(self.unit) if self.unit in POLICY_UNITS.names else PolicyUnit()

    @property
    def has_range(self) -> bool:
        """Whether the unit counts between two positions."""
        return self._known.ends is not None

    @property
    def is_angular(self) -> bool:
        """Whether the unit is one of angles."""
        return self._known.per_radian is not None

    @property
    def zero(self) -> str:
        """Where and which way the unit counts, as far as `range` does not say it, for people to read."""
        return f"offset {self.offset or 0.0:g} {self.unit}" + (", inverted" if self.invert else "")

    @property
    def line(self) -> tuple[float, float]:
        """Factor and offset: the policy's number is the robot's times the factor, plus the offset."""
        offset = self.offset or 0.0
        if self.factor is not None:
            return self.factor, offset
        unit = self._known
        if unit.ends is None or self.range is None:
            factor = unit.per_radian or 1.0
            return -factor if self.invert else factor, offset
        factor = (unit.ends[1] - unit.ends[0]) / (self.range[1] - self.range[0])
        return factor, unit.ends[0] - factor * self.range[0]


class PolicyRotation(Document):
    """What a policy has in place of a quaternion."""

    form: Annotated[str, NameIn(ROTATION_FORMS)]
    """rotation_vector: the axis, as long as the angle; roll_pitch_yaw: about the fixed x, then y, then z;
    rotation_6d_rows, rotation_6d_columns: the first two rows, or columns, of the rotation matrix, one after
    the other"""
    names: Names
    """the policy's names of these numbers, in the place of the quaternion's"""

    @model_validator(mode="after")
    def _fits(self) -> PolicyRotation:
        require_unique(self.names, "names")
        if len(self.names) != (width := self.shape.width):
            raise ValueError(f"names: found {len(self.names)}, expected {width} of a {self.form}")
        return self

    @property
    def shape(self) -> RotationForm:
        """How many numbers the form has, and how they are converted."""
        return ROTATION_FORMS.get(self.form)


class StateRotation(PolicyRotation):
    """What a policy sees in place of a quaternion of the state."""

    quaternion: tuple[Name, Name, Name, Name]
    """the entries that are x, y, z and w of the orientation, in this order"""


@dataclass(frozen=True)
class ConvertedQuaternion:
    """A quaternion that the policy says in another form: its columns in the robot's vector, x y z w."""

    rotation: PolicyRotation
    columns: tuple[int, ...]


def check_scales(scales: Sequence[Scale], quantities: Mapping[str, str]) -> None:
    """Raise ValueError for scales that do not fit the joints beside them.

    quantities: of these joints' numbers by joint: a kind of action, QUATERNION, or a JointState's field.
    """
    for index, scale in enumerate(scales):
        if unknown := [name for name in scale.names if name not in quantities]:
            expected = f"names of {', '.join(quantities)}"
            raise ValueError(f"scale.{index}.names: found {', '.join(unknown)}, expected {expected}")
        for name in scale.names:
            quantity = quantities[name]
            if quantity == QUATERNION:
                expected = "none: it has no unit"
                raise ValueError(f"scale.{index}.names: found {name} of a quaternion, expected {expected}")
            if scale.has_range and not ACTION_KINDS[quantity].may_have_range:
                found = f"scale.{index}.unit: found {scale.unit} with {quantity}"
                raise ValueError(f"{found}, expected it with position or switch only")
            if scale.is_angular and not ACTION_KINDS[quantity].may_be_angle:
                found = f"scale.{index}.unit: found {scale.unit} with {quantity}"
                raise ValueError(f"{found}, expected it with position or velocity")
            if scale.offset is not None and not ACTION_KINDS[quantity].may_have_offset:
                expected = "it with position only"
                raise ValueError(f"scale.{index}.offset: found with {quantity}, expected {expected}")
    require_unique([name for scale in scales for name in scale.names], "scale")


def zeros_agree(seen: Scale | None, commanded: Scale | None) -> bool:
    """Return whether a joint is commanded from the zero from which it is seen, as far as they say.

    None: the robot's unit. A range has its zero elsewhere, and says it.
    """
    scales = [scale for scale in (seen, commanded) if scale is not None]
    if any(scale.has_range for scale in scales):
        return True
    if not any(scale.offset is not None or scale.invert for scale in scales):
        return True
    lines = [scale.line if scale is not None else (1.0, 0.0) for scale in (seen, commanded)]
    (factor, offset), (other_factor, other_offset) = lines
    zeros_apart = abs(offset / factor - other_offset / other_factor)
    return factor * other_factor > 0.0 and zeros_apart <= LEAST


def find_contradiction(seen: Scale | None, commanded: Scale | None) -> str:
    """Return how the scale of a position contradicts that of its command; empty when it does not.

    None: the robot's unit. They may be of different units.
    """
    lines = [scale.line[0] if scale is not None else 1.0 for scale in (seen, commanded)]
    if lines[0] * lines[1] < 0.0:
        up, down = ("state", "actions") if lines[0] > 0.0 else ("actions", "state")
        return f"counting up in {up} and down in {down}, expected one direction"
    if seen is None or commanded is None or seen.unit != commanded.unit or seen.has_range:
        return ""
    if math.isclose(lines[0], lines[1]):
        return ""
    return f"with {lines[0]:g} {seen.unit} in state and {lines[1]:g} in actions, expected one factor"


class UnitMap:
    """Converts vectors between the robot's units and the policy's, and orientations to the policy's form.

    Numbers are converted by column. A map without any scale and rotation returns them as they are.
    """

    def __init__(self, scales: Sequence[Scale | None], turned: Sequence[ConvertedQuaternion] = ()) -> None:
        """scales: one for each column of the robot, None where both speak its unit."""
        self._scales = tuple(scales)
        self.lines = tuple(scale.line if scale else (1.0, 0.0) for scale in scales)  # factor and offset
        self._factor = np.array([factor for factor, _ in self.lines])
        self._offset = np.array([offset for _, offset in self.lines])
        self._is_identity = not any(self._scales)
        self.turned = tuple(turned)
        plain: list[tuple[int, ...]] = [(place,) for place in range(len(self._scales))]
        layout = self.lay_out(plain, lambda turned: [turned.columns] * turned.rotation.shape.width)
        self.policy_dim = len(layout)
        self._kept = [(place, found[0]) for place, found in enumerate(layout) if len(found) == 1]
        self._places = [
            [place for place, found in enumerate(layout) if found == one.columns] for one in self.turned
        ]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnitMap):
            return NotImplemented
        return (self.lines, self.units, self.turned) == (other.lines, other.units, other.turned)

    __hash__ = None  # type: ignore[assignment]  # compared, not kept in sets

    @property
    def units(self) -> tuple[str, ...]:
        """The policy's unit of each column of the robot; empty where it is the robot's."""
        return tuple(scale.unit if scale else "" for scale in self._scales)

    def units_beside(self, own: Iterable[str]) -> tuple[str, ...]:
        """Return the policy's unit of each of its columns. own: the robot's, of each of its columns."""
        said = [unit or robot for unit, robot in zip(self.units, own, strict=True)]
        return self.lay_out(said, lambda turned: [turned.rotation.shape.unit] * turned.rotation.shape.width)

    def lay_out(
        self, entries: Sequence[Entry], turned: Callable[[ConvertedQuaternion], Sequence[Entry]]
    ) -> tuple[Entry, ...]:
        """Return what the policy has for each of its columns: the robot's entries, one for each column.

        turned: gives those in place of a quaternion's, which stand where the first of it stood.
        """
        heads = {min(one.columns): one for one in self.turned}
        rest = {column for one in self.turned for column in one.columns} - heads.keys()
        found: list[Entry] = []
        for column, entry in enumerate(entries):
            if column not in rest:
                found += turned(heads[column]) if column in heads else [entry]
        return tuple(found)

    def to_policy(self, values: ArrayLike) -> Float64Array:
        """Return `[..., policy_dim]` in the policy's units and forms from `[..., columns]` in the robot's.

        The numbers of a quaternion that says no orientation become NaN.
        """
        return self.fold(self.in_policy_units(values))

    def in_policy_units(self, values: ArrayLike) -> Float64Array:
        """Return `[..., columns]` in the policy's units from values in the robot's: quaternions stay so."""
        robot = np.asarray(values, np.float64)
        return robot if self._is_identity else robot * self._factor + self._offset

    def to_robot(self, values: ArrayLike) -> Float64Array:
        """Return `[..., columns]` in the robot's units from `[..., policy_dim]` in the policy's.

        Numbers that say no orientation become a quaternion of zeros.
        """
        policy = self.unfold(np.asarray(values, np.float64))
        return policy if self._is_identity else (policy - self._offset) / self._factor

    def fold(self, values: Float64Array) -> Float64Array:
        """Return `[..., policy_dim]` from `[..., columns]`, both in the policy's units."""
        if not self.turned:
            return values
        found = np.empty((*values.shape[:-1], self.policy_dim))
        for place, column in self._kept:
            found[..., place] = values[..., column]
        for one, places in zip(self.turned, self._places, strict=True):
            quaternions = values[..., list(one.columns)].reshape(-1, 4)
            said = one.rotation.shape.of_quaternions(quaternions)
            found[..., places] = said.reshape(*values.shape[:-1], len(places))
        return found

    def unfold(self, values: Float64Array) -> Float64Array:
        """Return `[..., columns]` from `[..., policy_dim]`, both in the policy's units."""
        if not self.turned:
            return values
        found = np.empty((*values.shape[:-1], len(self._scales)))
        for place, column in self._kept:
            found[..., column] = values[..., place]
        for one, places in zip(self.turned, self._places, strict=True):
            said = values[..., places].reshape(-1, len(places))
            quaternions = one.rotation.shape.to_quaternions(said)
            found[..., list(one.columns)] = quaternions.reshape(*values.shape[:-1], 4)
        return found


def scales_by_name(scales: Sequence[Scale]) -> dict[str, Scale]:
    """Return the scale of each joint that has one."""
    return {name: scale for scale in scales for name in scale.names}
