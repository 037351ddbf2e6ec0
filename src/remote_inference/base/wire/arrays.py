# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Numeric fields of ROS messages as numpy arrays, without hidden copies.

Fields are always assigned as `array.array`, which rclpy copies at once. rclpy would iterate over a numpy
array or a memoryview in Python (benchmarks/image_codecs.py measures the difference).
"""

from __future__ import annotations

import dataclasses
import math
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rclpy.serialization import deserialize_message

from remote_inference.base.errors import BoundedError

ByteBuffer: TypeAlias = "bytes | bytearray | memoryview | array[int]"


class WireError(BoundedError, ValueError):
    """A message cannot be read or written; the text names the field, what was found and expected."""


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Put a place before what is wrong: raise WireError for a ValueError, of which it is one."""
    try:
        yield
    except ValueError as error:
        raise WireError(f"{place}{error}") from error


class SensorError(BoundedError, ValueError):
    """A sensor message differs from the contract; the text names topic, what was found and expected."""


def find_non_finite(names: Sequence[str], values: NDArray[np.float64]) -> str:
    """Return which of the values `[n]` are not finite, by their names, or an empty string."""
    if np.isfinite(values).all():
        return ""
    pairs = zip(names, values, strict=True)
    odd = [f"{name} = {value}" for name, value in pairs if not np.isfinite(value)]
    return f"found {', '.join(odd)}, expected finite values"


def bytes_field(data: ByteBuffer) -> array[int]:
    """Copy bytes into a uint8[] field."""
    field = array("B")
    field.frombytes(data)
    return field


def float32_field(values: ArrayLike) -> array[float]:
    """Copy values of any shape into a float32[] field, row-major."""
    return array("f", np.asarray(values, np.float32).tobytes())


def float64_field(values: ArrayLike) -> array[float]:
    """Copy values of any shape into a float64[] field, row-major."""
    return array("d", np.asarray(values, np.float64).tobytes())


def from_float32_field(field: array[float], shape: Sequence[int], what: str) -> NDArray[np.float32]:
    """Return a read-only float32 view of a float32[] field, in `shape`, row-major.

    Raises WireError, naming `what`, when the field's length is not the size of `shape`.
    """
    if len(field) != math.prod(shape):
        sides = " x ".join(str(side) for side in shape)
        expected = sides if len(shape) == 1 else f"{sides} = {math.prod(shape)}"
        raise WireError(f"{what}: found {len(field)} values, expected {expected}")
    view = np.frombuffer(field, np.float32).reshape(shape)
    view.flags.writeable = False
    return view


def write_fields(data: object, message_type: Any) -> dict[str, Any]:
    """Return the fields that `data` and a message class share by name, as the message takes them."""
    found = {}
    for name, kind in message_type.get_fields_and_field_types().items():
        if hasattr(data, name):
            value = getattr(data, name)
            found[name] = float(value) if kind in {"float", "double"} else value
            if kind.startswith("sequence"):
                found[name] = list(value)
    return found


def read_fields(message: Any, message_type: Any, data: Any) -> dict[str, Any]:
    """Return the fields of a message that a dataclass has under the same names; sequences as tuples."""
    return {
        name: tuple(getattr(message, name)) if is_sequence else getattr(message, name)
        for name, is_sequence in _shared_fields(message_type, data).items()
    }


@cache  # asked with each chunk
def _shared_fields(message_type: Any, data: Any) -> dict[str, bool]:
    kinds = message_type.get_fields_and_field_types()
    names = [field.name for field in dataclasses.fields(data) if field.name in kinds]
    return {name: kinds[name].startswith("sequence") for name in names}


# -- Reads serialized messages, as raw subscriptions and files give them ---------------------------------


def read_message(data: bytes, message_type: type[Any], what: str) -> Any:
    """Return the message in CDR bytes. Raises WireError, naming `what`, for bytes that are none."""
    try:
        return deserialize_message(data, message_type)
    except Exception as error:  # rclpy raises many kinds for damaged bytes
        found = f"{what}: found {len(data)} bytes that cannot be read ({type(error).__name__})"
        raise WireError(f"{found}, expected a serialized {message_type.__name__}") from error
