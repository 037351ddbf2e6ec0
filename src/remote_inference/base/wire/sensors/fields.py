# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads numbers of any message by the paths of their fields, looked up once in the message's type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.contract.field_path import FieldPath
from remote_inference.base.wire.arrays import SensorError, WireError, find_non_finite
from remote_inference.base.wire.sensors.field_types import check_path

_Get = Callable[[Any], Any]


class FieldReader:
    """Picks the numbers of some paths out of messages of one type; true is 1, false 0.

    Messages may be rclpy's, or any object with the same fields, as those of a bag.
    """

    def __init__(self, type_name: str, paths: Sequence[FieldPath], topic: str = "") -> None:
        """type_name: as "geometry_msgs/msg/WrenchStamped". topic: named before what cannot be read, if given.

        Raises WireError, beginning with the path's place as in `fields.2`, for a path that the type does not
        have, that leads to no number, or through a sequence without an index; and for a type that is not
        installed.
        """
        for place, path in enumerate(paths):
            _check(type_name, path, f"fields.{place}")
        self._paths = tuple(paths)
        self._where = f"{topic}: " if topic else ""
        self._names = tuple(name for path in paths for name in path.names)
        self._numbers: list[tuple[int, _Get]] = []  # with the place among the names
        self._slices: list[tuple[slice, _Get]] = []
        begin = 0
        for path in paths:
            end = begin + len(path.names)
            if path.slice is None:
                self._numbers.append((begin, _make_getter(path)))
            else:
                self._slices.append((slice(begin, end), _make_getter(path)))
            begin = end

    def read(self, message: Any) -> NDArray[np.float64]:
        """Return float64 `[n]`, the numbers of each path in turn, in the message's units.

        Raises SensorError naming the path when the message is too short for it, or a number is not finite.
        """
        values = np.empty(len(self._names))
        try:
            for place, get in self._numbers:
                values[place] = get(message)
            for places, get in self._slices:
                found = get(message)
                if len(found) != places.stop - places.start:  # numpy would repeat a single item
                    raise IndexError
                values[places] = found
        except (IndexError, AttributeError, TypeError, ValueError) as error:
            problems = filter(None, (_find_problem(message, path) for path in self._paths))
            problem = next(problems, f"cannot be read: {error}")
            raise SensorError(f"{self._where}{problem}") from error
        if odd := find_non_finite(self._names, values):
            raise SensorError(f"{self._where}{odd}")
        return values


def _check(type_name: str, path: FieldPath, place: str) -> None:
    try:
        check_path(type_name, path)
    except ValueError as error:
        raise WireError(f"{place}: {error}") from error


def _make_getter(path: FieldPath) -> _Get:
    """Return what reads a path: names without an index between them are one step."""
    steps: list[_Get] = []
    names: list[str] = []
    for part in path.parts:
        names.append(part.name)
        if part.index is not None:
            key = part.index if isinstance(part.index, int) else slice(*part.index)
            steps += [attrgetter(".".join(names)), itemgetter(key)]
            names = []
    if names:
        steps.append(attrgetter(".".join(names)))
    if len(steps) == 1:
        return steps[0]

    def get(message: Any) -> Any:
        for step in steps:
            message = step(message)
        return message

    return get


def _find_problem(message: Any, path: FieldPath) -> str:
    """Return why a path cannot be read: the first field on its way that is absent or short; else nothing."""
    found: Any = message
    for part in path.parts:
        if not hasattr(found, part.name):
            return f"{path.text}: found no {part.name} in the message"
        found = getattr(found, part.name)
        if part.index is None:
            continue
        needed = part.index + 1 if isinstance(part.index, int) else part.index[1]
        count = len(found) if hasattr(found, "__len__") else 0  # a bag's type may have had no sequence
        if count < needed:
            return f"{path.text}: found {count} items of {part.name}, expected {needed} or more"
        if isinstance(part.index, int):
            found = found[part.index]
    return ""
