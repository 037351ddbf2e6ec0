# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Numeric and msgpack fields of ROS messages as numpy arrays and dictionaries, without hidden copies.

Fields are always assigned as `array.array`, which rclpy copies at once. rclpy would iterate over a numpy
array or a memoryview in Python (benchmarks/image_codecs.py measures the difference).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgpack
import numpy as np
from numpy.typing import ArrayLike, NDArray

from remote_inference.errors import cut_lines

ByteBuffer: TypeAlias = "bytes | bytearray | memoryview | array[int]"


class WireError(ValueError):
    """A message cannot be read or written; the text names the field, what was found and expected."""

    def __init__(self, text: str) -> None:
        super().__init__(cut_lines(text))


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


def pack_extras(extras: Mapping[str, Any]) -> array[int]:
    """Pack a map into an extras field; an empty map makes an empty field.

    Raises WireError for a value that msgpack cannot hold.
    """
    if not extras:
        return array("B")
    try:
        return bytes_field(msgpack.packb(dict(extras)))
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"extras: cannot be packed: {error}") from error


def unpack_extras(field: ByteBuffer) -> dict[str, Any]:
    """Return the map in an extras field, empty for an empty field. The caller must ignore unknown keys.

    Raises WireError when the field is not one msgpack map with text keys.
    """
    if not len(field):
        return {}
    try:
        extras = msgpack.unpackb(field)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise WireError(
            f"extras: {len(field)} bytes are not msgpack: {error or type(error).__name__}"
        ) from error
    if not isinstance(extras, dict):
        raise WireError(f"extras: found a msgpack {type(extras).__name__}, expected a map")
    if odd := [key for key in extras if not isinstance(key, str)]:
        raise WireError(f"extras: found key {odd[0]!r}, expected text keys")
    return extras
