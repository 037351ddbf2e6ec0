# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Pickles of peers that are not trusted, read without looking anything up or calling anything.

A pickle is a program for a machine with a stack. Its dangerous instructions name a function and call it.
Here a name stays a text, and a call becomes a `Call`, which says what would have been called with what:
whoever reads the result takes from it what he knows, as numpy's arrays below, and refuses the rest. The
standard library's `pickletools` decodes the instructions.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.wire.arrays import WireError
from remote_inference.server.frameworks.openpi import read_numpy

MAX_INSTRUCTIONS = 20_000
MAX_NAME_LENGTH = 256


@dataclass(frozen=True)
class Name:
    """A function or class, `module.name`, which nobody has looked up."""

    text: str


@dataclass(eq=False)
class Call:
    """What a pickle would have made: by which function, of what, and with which state afterwards."""

    function: str
    arguments: tuple[Any, ...]
    state: Any = None


class _Machine:
    """The stack, the marks in it and the memory of one pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks below each mark
        self._memory: dict[int, Any] = {}

    def mark(self, _: object) -> None:
        self._below.append(self.stack)
        self.stack = []

    def pop_mark(self) -> list[Any]:
        found, self.stack = self.stack, self._below.pop()
        return found

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def push_tuple(self, size: int) -> None:
        if len(self.stack) < size:
            raise IndexError
        self.stack[len(self.stack) - size :] = [tuple(self.stack[len(self.stack) - size :])]

    def memoize(self, _: object) -> None:
        self._memory[len(self._memory)] = self.stack[-1]

    def put(self, place: int) -> None:
        self._memory[place] = self.stack[-1]

    def get(self, place: int) -> None:
        self.push(self._memory[place])

    def append(self, values: list[Any]) -> None:
        _require(self.stack[-1], list).extend(values)

    def set_items(self, values: list[Any]) -> None:
        target = _require(self.stack[-1], dict)
        for key, value in zip(values[::2], values[1::2], strict=True):
            target[_require(key, str)] = value

    def name(self, module: Any, name: Any) -> None:
        text = f"{_require(module, str)}.{_require(name, str)}"
        if len(text) > MAX_NAME_LENGTH:
            raise WireError(f"pickle: found a name of {len(text)} characters")
        self.push(Name(text))

    def call(self, function: Any, arguments: Any) -> None:
        self.push(Call(_require(function, Name).text, _require(arguments, tuple)))

    def build(self, state: Any) -> None:
        _require(self.stack[-1], Call).state = state


def _pushing(make: Callable[[], Any]) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.push(make())


def _joining(size: int) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.push_tuple(size)


_VALUES = "BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE BINUNICODE8"
_BYTES = "SHORT_BINBYTES BINBYTES BINBYTES8 BYTEARRAY8"
_INSTRUCTIONS: Mapping[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(f"{_VALUES} {_BYTES}".split(), _Machine.push),
    **dict.fromkeys(("PROTO", "FRAME"), lambda _machine, _: None),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _Machine.put),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _Machine.get),
    "MEMOIZE": _Machine.memoize,
    "NONE": _pushing(lambda: None),
    "NEWTRUE": _pushing(lambda: True),
    "NEWFALSE": _pushing(lambda: False),
    "EMPTY_TUPLE": _pushing(tuple),
    "EMPTY_LIST": _pushing(list),
    "EMPTY_DICT": _pushing(dict),
    "MARK": _Machine.mark,
    "TUPLE": lambda machine, _: machine.push(tuple(machine.pop_mark())),
    "TUPLE1": _joining(1),
    "TUPLE2": _joining(2),
    "TUPLE3": _joining(3),
    "APPEND": lambda machine, _: machine.append([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.pop_mark()),
    "SETITEM": lambda machine, _: machine.set_items([machine.stack.pop(-2), machine.stack.pop()]),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_mark()),
    "GLOBAL": lambda machine, argument: machine.name(*argument.split(" ")),
    "STACK_GLOBAL": lambda machine, _: machine.name(machine.stack.pop(-2), machine.stack.pop()),
    "REDUCE": lambda machine, _: machine.call(machine.stack.pop(-2), machine.stack.pop()),
    "NEWOBJ": lambda machine, _: machine.call(machine.stack.pop(-2), machine.stack.pop()),
    "BUILD": lambda machine, _: machine.build(machine.stack.pop()),
}


def read_pickle(data: bytes) -> Any:
    """Return what a pickle holds: plain values, lists, tuples, maps by text, names and calls.

    Nothing is looked up or called, and what the value refers to twice, itself included, it refers to twice
    here: walk it along the shapes that you expect, not by recursion. Raises WireError for instructions that
    plain values, arrays and dataclasses do not need, for more than MAX_INSTRUCTIONS, and for broken pickles.
    """
    machine = _Machine()
    try:
        for count, (instruction, argument, _) in enumerate(pickletools.genops(data)):
            if count == MAX_INSTRUCTIONS:
                raise WireError(f"pickle: found more than {MAX_INSTRUCTIONS} instructions")
            if instruction.name == "STOP":
                return machine.stack.pop()
            if (run := _INSTRUCTIONS.get(instruction.name)) is None:
                raise WireError(f"pickle: found the instruction {instruction.name}, which no message needs")
            run(machine, argument)
    except WireError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise WireError(f"pickle: {len(data)} bytes that cannot be read ({reason})") from error
    raise WireError("pickle: found no end")


def _require(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise WireError(f"pickle: found a value of type {type(value).__name__}, expected {kind.__name__}")
    return value


# -- numpy, as releases 1 and 2 pickle themselves: `numpy.core` became `numpy._core` -------------------------


def to_numpy(call: Call) -> NDArray[Any] | np.generic:
    """Return the array or number for which a call stands; arrays are read-only views on the pickle's bytes.

    Raises WireError for other calls, other types than openpi's frames may have, and data that do not fill
    their shape.
    """
    match call.function.replace("numpy._core.", "numpy.core."), call.arguments, call.state:
        case "numpy.core.multiarray._reconstruct", _, (1, shape, Call() as dtype, bool(is_fortran), data):
            return _to_array(dtype, shape, is_fortran, data)
        case "numpy.core.numeric._frombuffer", (data, Call() as dtype, shape, "C" | "F" as order), _:
            return _to_array(dtype, shape, order == "F", data)
        case "numpy.core.multiarray.scalar", (Call() as dtype, data), _:
            return _to_array(dtype, (), False, data)[()]
    raise WireError(f"pickle: found a call of {call.function}, expected an array of numpy's")


def _to_array(dtype: Call, shape: Any, is_fortran: bool, data: Any) -> NDArray[Any]:
    match dtype.function, dtype.arguments, dtype.state, shape, data:
        case "numpy.dtype", (str(kind), *_), (_, str(order), *_), tuple(), bytes() | bytearray():
            sides = list(shape[::-1] if is_fortran else shape)
            fields = {b"data": bytes(data), b"dtype": f"{order}{kind}", b"shape": sides}
        case _:
            raise WireError("pickle: array: found no type, shape and data as numpy writes them")
    array: NDArray[Any] = read_numpy({b"__ndarray__": True, **fields})
    return array.T if is_fortran else array
