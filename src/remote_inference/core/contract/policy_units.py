# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The units in which a policy speaks of joints, where they are not the robot's.

The robot's side speaks radians and metres everywhere: sensors, limits, commands, recordings. What crosses to
the policy is in the policy's units: the state, the chunks, and the prefixes, which are rows of chunks and go
back as they came. So each number is converted once: the state right before it is sent, a row of a chunk right
before the guard checks it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from remote_inference.core.contract.fields import Finite, Name, Names, require_unique
from remote_inference.core.documents.document import Document
from remote_inference.core.documents.registry import Registry

MOST = 1e6  # of a range's ends and of a factor: beyond it, float32 would not do
LEAST = 1e-6  # of a factor, and between a range's ends
QUATERNION = "quaternion"  # the quantity of its four numbers

Float64Array = NDArray[np.float64]


@dataclass(frozen=True)
class PolicyUnit:
    """A unit that is known by its name: by its value for one radian, or by its values at a range's ends."""

    per_radian: float | None = None
    ends: tuple[float, float] | None = None

    @property
    def has_range(self) -> bool:
        return self.ends is not None


POLICY_UNITS = Registry[PolicyUnit]("unit")
POLICY_UNITS.add("degrees", PolicyUnit(per_radian=180.0 / math.pi))
POLICY_UNITS.add("percent", PolicyUnit(ends=(0.0, 100.0)))
POLICY_UNITS.add("signed_percent", PolicyUnit(ends=(-100.0, 100.0)))
POLICY_UNITS.add("fraction", PolicyUnit(ends=(0.0, 1.0)))

End = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]


class Scale(Document):
    """A group of joints that the policy has in another unit than the robot."""

    unit: Annotated[
        Name,
        Field(
            description="the policy's unit: degrees (per second for velocities); percent, signed_percent "
            "(-100 to 100) or fraction (0 to 1) of a range of positions; or another word, with its factor"
        ),
    ]
    names: Annotated[Names, Field(description="joints of this group, of the names beside `scale`")]
    range: Annotated[
        tuple[End, End] | None,
        Field(
            description="percent, signed_percent and fraction: the robot's positions at the unit's lowest "
            "and highest value, which may fall [unit of the joint]"
        ),
    ] = None
    factor: Annotated[
        Finite | None,
        Field(
            description="another unit: its value for one of the robot's unit, 1000 for millimetres; below 0: "
            "counts the other way",
        ),
    ] = None
    invert: Annotated[bool, Field(description="degrees: counts the other way")] = False
    offset: Annotated[
        float | None,
        Field(
            ge=-MOST,
            le=MOST,
            allow_inf_nan=False,
            description="degrees or another unit of positions: the policy's number where the robot's is 0 "
            "[unit of the policy]",
        ),
    ] = None

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
                with_range = [name for name in POLICY_UNITS.names if POLICY_UNITS.get(name).has_range]
                raise ValueError(
                    f"range: found with {self.unit}, expected it with {', '.join(with_range)} only"
                )
        elif self.range is None:
            low, high = POLICY_UNITS.get(self.unit).ends or (0.0, 0.0)
            raise ValueError(
                f"range: missing, expected the robot's positions at {low:g} and {high:g} {self.unit}"
            )
        elif abs(self.range[1] - self.range[0]) < LEAST:
            raise ValueError(
                f"range: found {self.range[0]:g} to {self.range[1]:g}, expected positions at least "
                f"{LEAST:g} apart"
            )
        return self

    def _check_factor(self) -> None:
        if self.factor is None:
            raise ValueError(
                f"unit: found {self.unit!r}, expected {', '.join(POLICY_UNITS.names)}, or another word "
                "together with its factor"
            )
        if not LEAST <= abs(self.factor) <= MOST:
            raise ValueError(
                f"factor: found {self.factor:g}, expected {LEAST:g} to {MOST:g}, or as much below 0"
            )

    @property
    def has_range(self) -> bool:
        """Whether the unit counts between two positions."""
        return self.unit in POLICY_UNITS.names and POLICY_UNITS.get(self.unit).has_range

    @property
    def is_angular(self) -> bool:
        """Whether the unit is one of angles."""
        return self.unit in POLICY_UNITS.names and POLICY_UNITS.get(self.unit).per_radian is not None

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
        unit = POLICY_UNITS.get(self.unit)
        if unit.ends is None or self.range is None:
            factor = unit.per_radian or 1.0
            return -factor if self.invert else factor, offset
        factor = (unit.ends[1] - unit.ends[0]) / (self.range[1] - self.range[0])
        return factor, unit.ends[0] - factor * self.range[0]


def check_scales(scales: Sequence[Scale], quantities: Mapping[str, str]) -> None:
    """Raise ValueError for scales that do not fit the joints beside them.

    quantities: of these joints' numbers by joint: a kind of action, QUATERNION, or a JointState's field.
    """
    for index, scale in enumerate(scales):
        if unknown := [name for name in scale.names if name not in quantities]:
            raise ValueError(
                f"scale.{index}.names: found {', '.join(unknown)}, expected names of {', '.join(quantities)}"
            )
        for name in scale.names:
            quantity = quantities[name]
            if quantity == QUATERNION:
                raise ValueError(
                    f"scale.{index}.names: found {name} of a quaternion, expected none: it has no unit"
                )
            if scale.has_range and quantity not in ("position", "switch", "pose"):
                raise ValueError(
                    f"scale.{index}.unit: found {scale.unit} with {quantity}, expected it with position or "
                    "switch only"
                )
            if scale.is_angular and quantity in ("effort", "switch", "pose"):
                raise ValueError(
                    f"scale.{index}.unit: found {scale.unit} with {quantity}, expected it with position or "
                    "velocity"
                )
            if scale.offset is not None and quantity not in ("position", "pose"):
                raise ValueError(
                    f"scale.{index}.offset: found with {quantity}, expected it with position only"
                )
    require_unique([name for scale in scales for name in scale.names], "scale")


def have_one_zero(seen: Scale | None, commanded: Scale | None) -> bool:
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


class UnitMap:
    """Converts vectors between the robot's units and the policy's, by column.

    A map without any scale returns the numbers as they are.
    """

    def __init__(self, scales: Sequence[Scale | None]) -> None:
        """scales: one for each column, None where both speak the robot's unit."""
        self._scales = tuple(scales)
        self.lines = tuple(scale.line if scale else (1.0, 0.0) for scale in scales)  # factor and offset
        self._factor = np.array([factor for factor, _ in self.lines])
        self._offset = np.array([offset for _, offset in self.lines])
        self._is_identity = not any(self._scales)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnitMap):
            return NotImplemented
        return self.lines == other.lines and self.units == other.units

    __hash__ = None  # type: ignore[assignment]  # compared, not kept in sets

    @property
    def units(self) -> tuple[str, ...]:
        """The policy's unit of each column; empty where it is the robot's."""
        return tuple(scale.unit if scale else "" for scale in self._scales)

    def to_policy(self, values: ArrayLike) -> Float64Array:
        """Return `[..., columns]` in the policy's units from values in the robot's."""
        robot = np.asarray(values, np.float64)
        return robot if self._is_identity else robot * self._factor + self._offset

    def to_robot(self, values: ArrayLike) -> Float64Array:
        """Return `[..., columns]` in the robot's units from values in the policy's."""
        policy = np.asarray(values, np.float64)
        return policy if self._is_identity else (policy - self._offset) / self._factor


def scales_by_name(scales: Sequence[Scale]) -> dict[str, Scale]:
    """Return the scale of each joint that has one."""
    return {name: scale for scale in scales for name in scale.names}
