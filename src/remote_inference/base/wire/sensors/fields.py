# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of any message by the paths of their fields: what stands there in the type, and their reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import get_close_matches
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.contract.field_path import FieldPart, FieldPath
from remote_inference.base.wire.arrays import SensorError, find_non_finite, naming
from remote_inference.base.wire.message_types import command_class

NUMBERS = frozenset(
    ("boolean", "float", "double", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
)
_DEEPEST = 6  # levels of messages in which a misspelt path is looked for

_SEQUENCE = re.compile(r"sequence<(.+?)(?:, (\d+))?>")
_ARRAY = re.compile(r"(.+)\[(\d+)\]")
_MESSAGE = re.compile(r"(\w+)/(\w+)", re.ASCII)


def find_fields(type_name: str) -> dict[str, str]:
    """Return the fields of a message type, or of an action's goal, with their types as rosidl writes them.

    type_name: as "geometry_msgs/msg/Twist". Raises WireError for a type that is not installed.
    """
    return dict(command_class(type_name).get_fields_and_field_types())


def check_path(type_name: str, path: FieldPath) -> None:
    """Raise ValueError unless a path leads to a number, or to the numbers of a slice.

    type_name: of the message. The text names the path, the type in which it was looked for, the fields that
    are there and, where one is close, the path that may have been meant. Raises WireError for a type that is
    not installed.
    """
    inner, kind = find_type(type_name, path)
    if kind not in NUMBERS:
        message = message_type(kind)
        there = f", which has {', '.join(find_fields(message))}" if message else ""
        raise ValueError(
            f"found {path.text!r}, {_words(message or kind)} of {inner}{there}; expected a number"
        )


def find_type(type_name: str, path: FieldPath) -> tuple[str, str]:
    """Return the message type in which a path ends, and the type of what stands there, as rosidl writes it.

    Raises ValueError, with the words of check_path, for a path that the type does not have.
    """
    inner, kind = type_name, ""
    for place, part in enumerate(path.parts):
        fields = find_fields(inner)
        if part.name not in fields:
            there = f"which has {', '.join(fields) or 'no fields'}"
            hint = _suggest(type_name, path, place, fields)
            raise ValueError(f"found {path.text!r}: no {part.name!r} in {inner}, {there}{hint}")
        kind = item_type(fields[part.name], part, path)
        if place == len(path.parts) - 1:
            break
        message = message_type(kind)
        if not message:
            raise ValueError(
                f"found {path.text!r}: {part} of {inner} is {_words(kind)}, expected the path to end there"
            )
        inner = message
    return inner, kind


def item_type(kind: str, part: FieldPart, path: FieldPath) -> str:
    """Return the type of what a part means: of one item where its field is a sequence or an array.

    kind: of the part's field, as rosidl writes it. Raises ValueError, with the words of check_path, for an
    index that the field does not have, and for one that is missing.
    """
    sequence, fixed = _SEQUENCE.fullmatch(kind), _ARRAY.fullmatch(kind)
    found = sequence or fixed
    if found is None:
        if part.index is not None:
            what = _words(message_type(kind) or kind)
            raise ValueError(f"found {path.text!r}: {part.name} is {what}, expected no index")
        return kind
    item, most = found[1], found[2]
    if part.index is None:
        what = f"an array of {most}" if fixed else "a sequence"
        raise ValueError(
            f"found {path.text!r}: {part.name} is {what}, expected an index: {part.name}[0]"
            + (f", or {part.name}[0:{most or 8}] for several" if item in NUMBERS else "")
        )
    last = part.index if isinstance(part.index, int) else part.index[1] - 1
    if most is not None and last >= int(most):
        expected = f"0 to {int(most) - 1}: it has {most} items{'' if fixed else ' at most'}"
        raise ValueError(f"found {path.text!r}: item {last} of {part.name}, expected {expected}")
    return item


def message_type(kind: str) -> str:
    """Return the name of a field's message type, empty for what is no message."""
    found = _MESSAGE.fullmatch(kind)
    return f"{found[1]}/msg/{found[2]}" if found else ""


def _words(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeio' else 'a'} {kind}"


def _suggest(type_name: str, path: FieldPath, place: int, fields: Collection[str]) -> str:
    """Return the words for the path that was probably meant, empty if none is close.

    fields: those among which the path's part at `place` was not found.
    """
    known = list(number_paths(type_name))
    rest = "." + ".".join(part.name for part in path.parts[place:])
    inside = [leaf for leaf in known if f".{leaf}".endswith(rest)]  # its first fields were left out
    misspelt = get_close_matches(path.parts[place].name, fields)
    meant = inside or (misspelt and get_close_matches(path.text, known, n=1))
    return f"; did you mean {min(meant, key=len)!r}?" if meant else ""


def number_paths(type_name: str, stem: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the paths to a type's numbers; of sequences and arrays those to the first item."""
    for name, kind in find_fields(type_name).items():
        found: Any = _SEQUENCE.fullmatch(kind) or _ARRAY.fullmatch(kind)
        item, text = (found[1], f"{stem}{name}[0]") if found else (kind, f"{stem}{name}")
        if item in NUMBERS:
            yield text
        elif (message := message_type(item)) and depth < _DEEPEST:
            yield from number_paths(message, f"{text}.", depth + 1)


# -- Reads the numbers, whose fields are looked up once in the message's type ----------------------------

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
            with naming(f"fields.{place}: "):
                check_path(type_name, path)
        self._paths = tuple(paths)
        self._where = f"{topic}: " if topic else ""
        self._names = tuple(name for path in paths for name in path.names)
        self._getters: list[tuple[int | slice, _Get]] = []  # with the places among the names
        begin = 0
        for path in paths:
            end = begin + len(path.names)
            self._getters.append((begin if path.slice is None else slice(begin, end), _make_getter(path)))
            begin = end

    def read(self, message: Any) -> NDArray[np.float64]:
        """Return float64 `[n]`, the numbers of each path in turn, in the message's units.

        Raises SensorError naming the path when the message is too short for it, or a number is not finite.
        """
        values = np.empty(len(self._names))
        try:
            for places, get in self._getters:
                found = get(message)
                if isinstance(places, slice) and len(found) != places.stop - places.start:
                    raise IndexError  # numpy would repeat a single item
                values[places] = found
        except (IndexError, AttributeError, TypeError, ValueError) as error:
            problems = filter(None, (_find_problem(message, path) for path in self._paths))
            problem = next(problems, f"cannot be read: {error}")
            raise SensorError(f"{self._where}{problem}") from error
        if odd := find_non_finite(self._names, values):
            raise SensorError(f"{self._where}{odd}")
        return values


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
