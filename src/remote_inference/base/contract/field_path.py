# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a number stands in a message: `twist.linear.x`, `poses[3].position.x`, or several: `data[0:64]`.

A path is only text here: whether a message has such a field is known where the message types are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_ITEMS = 4096  # of a slice: a state is sent with each request

# What fields of ROS's common messages hold, by a part of the path: the last one known counts.
QUANTITIES = {
    "position": ("position", "positions", "pose", "translation", "orientation", "rotation"),
    "velocity": ("velocity", "velocities", "twist", "linear", "angular"),
    "effort": ("effort", "efforts", "wrench", "force", "torque"),
}
_QUANTITY_OF = {word: quantity for quantity, words in QUANTITIES.items() for word in words}
_PLACES = {
    "position": "position",
    "translation": "position",
    "orientation": "quaternion",
    "rotation": "quaternion",
}
_AXES = {"position": "xyz", "quaternion": "xyzw"}

_PART = re.compile(r"([A-Za-z][A-Za-z0-9_]*)(?:\[(\d{1,6})(?::(\d{1,6}))?\])?", re.ASCII)


@dataclass(frozen=True)
class FieldPart:
    """A field on the way, and which of its items is meant: one, the slice `[begin, end)`, or it has none."""

    name: str
    index: int | tuple[int, int] | None = None

    def __str__(self) -> str:
        if self.index is None:
            return self.name
        if isinstance(self.index, int):
            return f"{self.name}[{self.index}]"
        return f"{self.name}[{self.index[0]}:{self.index[1]}]"


@dataclass(frozen=True)
class FieldPath:
    """The way from a message to a number, or to the numbers of a slice."""

    text: str
    parts: tuple[FieldPart, ...]

    @property
    def slice(self) -> tuple[int, int] | None:
        """First item and the one behind the last, of a path that ends with a slice."""
        index = self.parts[-1].index
        return index if isinstance(index, tuple) else None

    @property
    def names(self) -> tuple[str, ...]:
        """The path of each number `[n]`: the text itself, or for a slice one with each index."""
        if self.slice is None:
            return (self.text,)
        stem = self.text.rpartition("[")[0]
        return tuple(f"{stem}[{index}]" for index in range(*self.slice))

    @property
    def quantity(self) -> str:
        """Position, velocity or effort, by the words of the path; empty where they do not say."""
        words = [part.name for part in reversed(self.parts)]
        if any("accel" in word for word in words):  # its linear and angular are no velocities
            return ""
        return next((_QUANTITY_OF[word] for word in words if word in _QUANTITY_OF), "")

    @property
    def axis(self) -> tuple[str, str] | None:
        """Which number of a pose it is, by the words of the path: position or quaternion, x to w."""
        place = _PLACES.get(self.parts[-2].name, "") if len(self.parts) > 1 else ""
        axis = self.parts[-1].name
        return (place, axis) if axis in _AXES.get(place, "") else None

    def name_items(self, name: str) -> tuple[str, ...]:
        """Return the names `[n]` of the numbers, if a person calls them so: those of a slice count from 0."""
        if self.slice is None:
            return (name,)
        begin, end = self.slice
        return tuple(f"{name}[{place}]" for place in range(end - begin))


def parse_field_path(text: str) -> FieldPath:
    """Return the path that a text says. Raises ValueError with what was found and expected."""
    parts = []
    for word in text.split("."):
        found = _PART.fullmatch(word)
        if found is None:
            raise ValueError(
                f"found {text!r}, expected names of fields with dots between them, each with one index at "
                "most, such as twist.linear.x, poses[3].position.x or data[0:64]"
            )
        name, begin, end = found.groups()
        index = None if begin is None else int(begin) if end is None else (int(begin), int(end))
        parts.append(FieldPart(name, index))
    _check_slices(text, parts)
    return FieldPath(text, tuple(parts))


def _check_slices(text: str, parts: list[FieldPart]) -> None:
    for part in parts:
        if not isinstance(part.index, tuple):
            continue
        begin, end = part.index
        if part is not parts[-1]:
            raise ValueError(f"found the slice {part} within {text!r}, expected one at the end only")
        if not 1 <= end - begin <= MOST_ITEMS:
            expected = f"1 to {MOST_ITEMS}: the second number is the index behind the last item"
            raise ValueError(f"found {end - begin} items in {text!r}, expected {expected}")
