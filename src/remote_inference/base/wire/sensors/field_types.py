# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What stands at the end of a field's path in a message type, or why nothing does."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Any

from remote_inference.base.contract.field_path import FieldPart, FieldPath
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
        raise ValueError(
            f"found {path.text!r}: item {last} of {part.name}, expected 0 to {int(most) - 1}: "
            f"it has {most} items{'' if fixed else ' at most'}"
        )
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
