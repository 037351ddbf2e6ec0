# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""openpi's frames: msgpack in which a map with the key `__ndarray__` or `__npgeneric__` stands for numpy.

`pack` writes the bytes that openpi-client 0.1.2 writes. `unpack` reads those, and arrays as the package
msgpack-numpy and vLLM-Omni write them (a map with the key `nd`), from peers that are not trusted: within
limits, and only the types in `DTYPES`. openpi's own reader takes any type and size, and one with dtype `|O`
ends its process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from remote_inference.base.documents.problems import show_value
from remote_inference.base.wire.arrays import WireError

# As numpy writes them; little-endian alone, which is what every machine that runs openpi has.
DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")
MAX_FRAME_BYTES = 16_777_216
MAX_VALUES = 10_000  # entries of all maps and lists of a frame; the numbers of arrays are none
MAX_ENTRIES = 4_096  # of one map or list
MAX_KEY_LENGTH = 256
MAX_DEPTH = 8  # of maps and lists within each other
MAX_DIMENSIONS = 8  # of an array
MAX_ELEMENTS = 2**31 - 1  # of an array, a side of 0 taken for 1

_ARRAY, _SCALAR, _DATA, _DTYPE, _SHAPE = b"__ndarray__", b"__npgeneric__", b"data", b"dtype", b"shape"
_OTHERS_KEYS = {"nd", "type", "data"}  # msgpack-numpy's as bytes, vLLM-Omni's as texts
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float)}
_PLAIN = (bool, int, float, str, bytes, type(None), np.ndarray, np.generic)


def pack(value: Any) -> bytes:
    """Return the frame of a value: maps, lists, text, bytes, numbers, and arrays of a type in DTYPES.

    Raises WireError for anything else.
    """
    return write_msgpack(value, _describe, "frame")


def unpack(data: bytes, max_bytes: int = MAX_FRAME_BYTES) -> Any:
    """Return the value of a frame; its arrays are read-only views on the frame's bytes.

    Raises WireError for a frame beyond `max_bytes`, for bytes that are not one msgpack value, for more or
    deeper nested values than the limits allow, and for arrays of other types or whose data does not fill
    their shape.
    """
    reader = _Reader()
    value = read_msgpack(
        data,
        "frame",
        max_bytes,
        object_hook=reader.read_map,
        list_hook=reader.read_list,
        ext_hook=_refuse_extension,
    )
    _require_plain(value, 0)
    return value


def write_msgpack(value: Any, default: Callable[[Any], Any], what: str) -> bytes:
    """Return a value as msgpack. what: its word in errors. Raises WireError for what cannot be written."""
    try:
        packed: bytes = msgpack.packb(value, default=default)
    except WireError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"{what}: cannot be written: {error}") from error
    return packed


def read_msgpack(data: bytes, what: str, max_bytes: int = MAX_FRAME_BYTES, **options: Any) -> Any:
    """Return a msgpack value within the limits. options: of `msgpack.unpackb`. Raises WireError."""
    if len(data) > max_bytes:
        raise WireError(f"{what}: found {len(data)} bytes, expected {max_bytes} at most")
    try:
        return msgpack.unpackb(data, max_array_len=MAX_ENTRIES, max_map_len=MAX_ENTRIES, **options)
    except WireError:
        raise
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise WireError(f"{what}: {len(data)} bytes are not msgpack within the limits: {reason}") from error


def unpack_map(data: bytes, max_bytes: int = MAX_FRAME_BYTES) -> dict[str, Any]:
    """Return the map in a frame. Raises WireError as `unpack` does, and for anything but a map of texts."""
    value = unpack(data, max_bytes)
    if not isinstance(value, dict):
        raise WireError(f"frame: found {_kind(value)}, expected a map")
    for key in value:
        if not isinstance(key, str):
            raise WireError(f"frame: found the key {show_value(key)}, expected a text")
    return value


def _describe(value: Any) -> dict[bytes, Any]:
    """Return the map that stands for an array or a numpy number, its keys in openpi's order."""
    if not isinstance(value, (np.ndarray, np.generic)):
        raise WireError(f"frame: found {type(value).__name__}, which cannot be written")
    dtype = value.dtype.str
    if dtype not in DTYPES:
        raise WireError(f"frame: found an array of type {dtype!r}, expected one of {', '.join(DTYPES)}")
    if isinstance(value, np.ndarray):
        return {_ARRAY: True, _DATA: value.tobytes(), _DTYPE: dtype, _SHAPE: value.shape}
    return {_SCALAR: True, _DATA: value.item(), _DTYPE: dtype}


class _Reader:
    """Counts the entries of a frame's maps and lists as they are read: a byte may cost 64 in memory."""

    def __init__(self) -> None:
        self._values = 0

    def read_list(self, values: list[Any] | dict[Any, Any]) -> Any:
        self._values += len(values) + 1
        if self._values > MAX_VALUES:
            raise WireError(f"frame: found more than {MAX_VALUES} values in its maps and lists")
        return values

    def read_map(self, values: dict[Any, Any]) -> Any:
        self.read_list(values)
        longest = max((len(key) for key in values if isinstance(key, (str, bytes))), default=0)
        if longest > MAX_KEY_LENGTH:  # a key stands in the name of all that is below it
            raise WireError(f"frame: found a key of {longest} characters, expected {MAX_KEY_LENGTH} at most")
        return read_numpy(values)


def read_numpy(values: dict[Any, Any]) -> Any:
    """Return the array or number that a map stands for; a map that stands for none as it is.

    Raises WireError for arrays of other types or whose data does not fill their shape.
    """
    if _ARRAY in values:
        return _read_array(values)
    if _SCALAR in values:
        return _read_scalar(values)
    named = {key.decode(errors="replace") if isinstance(key, bytes) else key: key for key in values}
    if not named.keys() >= _OTHERS_KEYS or not isinstance(is_array := values[named["nd"]], bool):
        return values
    fields = {_DTYPE: values[named["type"]], _DATA: values[named["data"]]}
    if not is_array:
        return _read_array({**fields, _SHAPE: []})[()]
    return _read_array(fields | ({_SHAPE: values[named["shape"]]} if "shape" in named else {}))


def _read_array(values: Mapping[Any, Any]) -> NDArray[Any]:
    dtype = _read_dtype(values)
    shape, data = _require(values, _SHAPE, list), _require(values, _DATA, bytes)
    if len(shape) > MAX_DIMENSIONS:
        raise WireError(f"array: found {len(shape)} dimensions, expected {MAX_DIMENSIONS} at most")
    for side in shape:
        if type(side) is not int or side < 0:
            raise WireError(f"array: shape: found {show_value(side)}, expected whole numbers from 0")
    if math.prod(max(side, 1) for side in shape) > MAX_ELEMENTS:
        raise WireError(f"array: shape: found {show_value(shape)}, expected {MAX_ELEMENTS} elements at most")
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        sides = " x ".join(map(str, shape))
        found = f"array: found {len(data)} bytes of data"
        raise WireError(f"{found}, expected {expected} for shape [{sides}] of {dtype.name}")
    return np.frombuffer(data, dtype).reshape(shape) if data else np.empty(shape, dtype)


def _read_scalar(values: Mapping[Any, Any]) -> Any:
    dtype = _read_dtype(values)
    number = _require(values, _DATA, _PYTHON_TYPES[dtype.kind])
    if isinstance(number, bool) and dtype.kind != "b":
        raise WireError(f"number: found {show_value(number)}, expected a value of type {dtype.name}")
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
        raise WireError(f"number: found {show_value(number)}, which {dtype.name} cannot hold")
    with np.errstate(over="ignore"):  # to infinity, as in an array of the sender
        return dtype.type(number)


def _read_dtype(values: Mapping[Any, Any]) -> np.dtype[Any]:
    name = _require(values, _DTYPE, (str, bytes))
    text = name.decode("ascii", "replace") if isinstance(name, bytes) else name
    if text not in DTYPES:
        raise WireError(f"array: dtype: found {show_value(text)}, expected one of {', '.join(DTYPES)}")
    return np.dtype(text)


def _require(values: Mapping[Any, Any], key: bytes, kind: type | tuple[type, ...]) -> Any:
    """Return a field of an array's map. Raises WireError when it is missing or of another kind."""
    if key not in values:
        raise WireError(f"array: {key.decode()}: found nothing, expected the keys data, dtype and shape")
    if not isinstance(values[key], kind):
        raise WireError(f"array: {key.decode()}: found {_kind(values[key])}")
    return values[key]


def _refuse_extension(code: int, data: bytes) -> None:
    raise WireError(f"frame: found a msgpack extension (code {code}, {len(data)} bytes), expected none")


def _require_plain(value: Any, depth: int) -> None:
    if isinstance(value, (dict, list)):
        if depth == MAX_DEPTH:
            raise WireError(f"frame: found maps or lists nested in more than {MAX_DEPTH} levels")
        for inner in value.values() if isinstance(value, dict) else value:
            _require_plain(inner, depth + 1)
    elif not isinstance(value, _PLAIN):  # a timestamp, which msgpack reads itself
        raise WireError(f"frame: found a msgpack {type(value).__name__}, expected none")


def _kind(value: Any) -> str:
    return f"a value of type {type(value).__name__}"
