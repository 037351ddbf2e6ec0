# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands as any message: each action goes into the field that the contract names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray

from remote_inference.base.contract.action_bounds import JointLimit
from remote_inference.base.contract.action_kinds import ACTION_KINDS
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.field_path import FieldPart, FieldPath, parse_field_path
from remote_inference.base.contract.operator_inputs import TakeoverPart
from remote_inference.base.wire.arrays import WireError, naming
from remote_inference.base.wire.commands.writer import CommandReader, CommandWriter
from remote_inference.base.wire.message_types import command_class, message_class
from remote_inference.base.wire.sensors.content_time import is_stamped
from remote_inference.base.wire.sensors.fields import NUMBERS, FieldReader, find_type, item_type, message_type

# What a number arrives as, by the type of its field.
FLOATS: dict[str, Callable[[float], float]] = {"float": lambda n: float(np.float32(n)), "double": float}
LARGEST_FLOAT = float(np.finfo(np.float32).max)
MOST_ITEMS = 256  # of a sequence that holds a value

_Value = bool | int | float | str


class FieldWriter(CommandWriter):
    """For controllers that no other writer knows: fields of actions, fields that stay, and a stamp."""

    def __init__(self, sink: CommandSink, contract: Contract) -> None:
        """Look fields and constants up, and try them once.

        An action goes into a number with a fraction: a whole one would round what the guard has passed. A
        switch goes into a boolean, true for closed, and into whole numbers, too. Raises WireError, beginning
        with the key, for what does not fit, and for a type that is not installed.
        """
        super().__init__(sink, contract)
        self.message_type = _find_class(sink)
        self._stamped = is_stamped(self.message_type)
        self._begin = self.message_type()
        for text, value in sink.constant.items():
            path, kind = _find(sink.type, "constant", text)
            converted = _convert(value, kind, text)
            self._check_constant(path, kind, converted)
            _put(self._begin, path, converted, f"constant.{text}")
        self._fields: list[tuple[FieldPath, Callable[[float], _Value]]] = []  # what makes it of a number
        for text, name in sink.fields.items():
            path, kind = _find(sink.type, "fields", text)
            limit = contract.actions.limit_of(name)
            if self.kind == "switch" and kind in NUMBERS and kind not in FLOATS:
                self._add_switch(path, kind, limit)
                continue
            if kind not in FLOATS:
                expected = "a boolean or a number" if self.kind == "switch" else "a float or double"
                raise WireError(f"fields: found {text!r}, a {kind}, expected {expected}")
            if kind == "float" and max(abs(limit.min), abs(limit.max)) > LARGEST_FLOAT:
                raise WireError(f"fields: found {text!r}, a float, for {name}, whose limits are beyond it")
            _put(self._begin, path, 0.0, f"fields.{text}")
            self._fields.append((path, FLOATS[kind]))

    def _add_switch(self, path: FieldPath, kind: str, limit: JointLimit) -> None:
        """Add a field without fraction for a switch. Raises WireError for limits that do not fit."""
        key = f"fields.{path.text}"
        convert: Callable[[float], _Value] = (lambda value: value == limit.max) if kind == "boolean" else int
        for value in () if kind == "boolean" else (limit.min, limit.max):
            if not value.is_integer():
                found = f"{key}: found limits {limit.min:g} and {limit.max:g}"
                raise WireError(f"{found}, expected whole numbers: {kind}")
            _check_range(int(value), kind, key)
        _put(self._begin, path, convert(limit.min), key)
        self._fields.append((path, convert))

    def _check_constant(self, path: FieldPath, kind: str, value: _Value) -> None:
        if self._stamped and [part.name for part in path.parts[:2]] == ["header", "stamp"]:
            raise WireError(f"constant: found {path.text!r}, expected none: the node stamps its messages")
        if ACTION_KINDS[self.kind].goes_on and kind in FLOATS and value != 0:
            found = f"constant: found {path.text}: {value!r} beside {self.kind} actions"
            raise WireError(f"{found}, expected 0: the message that stops them would hold it, too")

    def _write(self, rows: NDArray[np.float64], stamp: Time) -> Any:
        message = deepcopy(self._begin)
        if self._stamped:
            message.header.stamp = stamp
        for (path, convert), value in zip(self._fields, rows[0].tolist(), strict=True):
            _set(_parent(message, path), path.parts[-1], convert(value))
        return message


class FieldCommandReader(CommandReader):
    """Reads what a FieldWriter has written, or a person's device writes."""

    def __init__(self, sink: CommandSink | TakeoverPart, contract: Contract) -> None:
        """Look the fields up. Raises WireError as FieldWriter does."""
        names = tuple(sink.fields.values())
        super().__init__(sink.topic, [contract.actions.kind_of(name) for name in names], names)
        self.message_type = _find_class(sink)
        paths = [parse_field_path(text) for text in sink.fields]
        self._reader = FieldReader(sink.type, paths, sink.topic)
        limits = [contract.actions.limit_of(name) for name in names]
        self._ends = np.array([[limit.min, limit.max] for limit in limits])
        self._is_boolean = np.array([find_type(sink.type, path)[1] == "boolean" for path in paths])
        for text, name, is_boolean in zip(sink.fields, names, self._is_boolean, strict=True):
            if is_boolean and contract.actions.kind_of(name) != "switch":  # false would be its lower limit
                raise WireError(f"fields: found {text!r}, a boolean, for {name}, expected a number")

    def read(self, message: Any) -> NDArray[np.float64]:
        values = self._reader.read(message)
        closed = np.where(values != 0.0, self._ends[:, 1], self._ends[:, 0])
        return np.where(self._is_boolean, closed, values)


def _find_class(sink: CommandSink | TakeoverPart) -> Any:
    with naming("type: "):
        return command_class(sink.type)


def _find(type_name: str, key: str, text: str) -> tuple[FieldPath, str]:
    """Return a path and the type of its field. Raises WireError for one that the type does not have."""
    path = parse_field_path(text)
    with naming(f"{key}: "):
        return path, find_type(type_name, path)[1]


def _convert(value: _Value, kind: str, text: str) -> _Value:
    """Return a constant as its field takes it. Raises WireError for one of another type, or out of range.

    The setters of rclpy's messages look at neither.
    """
    is_text = kind.startswith(("string", "wstring"))
    if not (is_text or kind in NUMBERS):
        raise WireError(f"constant.{text}: a {kind}, expected a number, a text or a boolean")
    if is_text and isinstance(value, str):
        return value
    if kind == "boolean" and isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and kind != "boolean" and not is_text:
        if kind in FLOATS and abs(value) <= (LARGEST_FLOAT if kind == "float" else sys.float_info.max):
            return float(value)
        if kind not in FLOATS and isinstance(value, int):
            _check_range(value, kind, f"constant.{text}")
            return value
    raise WireError(f"constant.{text}: found {value!r}, expected a {kind}")


def _check_range(value: int, kind: str, key: str) -> None:
    bits = int(kind.rpartition("int")[2])
    least, most = (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not least <= value <= most:
        raise WireError(f"{key}: found {value}, expected {least} to {most}")


def _put(message: Any, path: FieldPath, value: _Value, key: str) -> None:
    """Set a field for the first time: sequences on its way grow. Raises WireError for what it refuses."""
    for part in path.parts[:-1]:
        message = _grow(message, part, path)
    try:
        _grow(message, path.parts[-1], path, value)
        _set(message, path.parts[-1], value)
    except (AssertionError, TypeError, ValueError, OverflowError) as error:
        raise WireError(f"{key}: found {value!r}: {' '.join(str(error).split())}") from error


def _grow(message: Any, part: FieldPart, path: FieldPath, value: _Value | None = None) -> Any:
    """Return what a part means, in a sequence that is long enough. value: like its items, if known."""
    found = getattr(message, part.name)
    if part.index is None:
        return found
    assert isinstance(part.index, int), "the contract refuses slices"
    if part.index >= MOST_ITEMS:
        raise WireError(f"fields: found item {part.index} in {path.text!r}, expected less than {MOST_ITEMS}")
    if part.index >= len(found):
        items = list(found)
        kind = message.get_fields_and_field_types()[part.name]
        # Without a value the path leads on, which it does through messages alone.
        make = message_class(message_type(item_type(kind, part, path))) if value is None else type(value)
        items += [make() for _ in range(part.index + 1 - len(items))]
        setattr(message, part.name, items)
        found = getattr(message, part.name)
    return found[part.index]


def _parent(message: Any, path: FieldPath) -> Any:
    for part in path.parts[:-1]:
        message = getattr(message, part.name)
        if part.index is not None:
            message = message[part.index]
    return message


def _set(message: Any, part: FieldPart, value: _Value) -> None:
    if part.index is None:
        setattr(message, part.name, value)
    else:
        getattr(message, part.name)[part.index] = value
