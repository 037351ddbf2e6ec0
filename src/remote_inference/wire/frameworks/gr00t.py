# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""GR00T N1.6's messages: msgpack in which a map with the key `__ndarray_class__` holds an array as `.npy`.

`pack` writes what N1.6's client writes, `unpack` reads what its server writes, within limits and only the
types of `DTYPES`: the header of an array is read before its memory is taken, and nothing is unpickled.
"""

from __future__ import annotations

import io
import math
from typing import Any

import msgpack
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from remote_inference.core.documents.problems import show_value
from remote_inference.wire.arrays import WireError
from remote_inference.wire.frameworks.openpi import DTYPES, MAX_ENTRIES, MAX_FRAME_BYTES

_ARRAY, _NPY = "__ndarray_class__", "as_npy"
_MODALITY, _JSON = "__ModalityConfig_class__", "as_json"
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def pack(value: Any) -> bytes:
    """Return the message of a value: maps, lists, text, numbers, None, and arrays of a type in DTYPES.

    Raises WireError for anything else.
    """
    try:
        packed: bytes = msgpack.packb(value, default=_describe)
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"message: cannot be written: {error}") from error
    return packed


def unpack(data: bytes) -> Any:
    """Return the value of a message: arrays as read-only views, modality configurations as maps.

    Raises WireError for bytes that are no message within the limits, and for arrays of other types or whose
    data does not fill their shape.
    """
    if len(data) > MAX_FRAME_BYTES:
        raise WireError(f"message: found {len(data)} bytes, expected {MAX_FRAME_BYTES} at most")
    try:
        return msgpack.unpackb(
            data, object_hook=_read_map, max_array_len=MAX_ENTRIES, max_map_len=MAX_ENTRIES, max_ext_len=0
        )
    except WireError:
        raise
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise WireError(f"message: {len(data)} bytes are not msgpack within the limits: {reason}") from error


def _describe(value: Any) -> dict[str, Any]:
    if not isinstance(value, np.ndarray) or value.dtype.str not in DTYPES:
        kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise TypeError(f"found {kind}")
    stream = io.BytesIO()
    np.save(stream, value, allow_pickle=False)
    return {_ARRAY: True, _NPY: stream.getvalue()}


def _read_map(values: dict[Any, Any]) -> Any:
    if _ARRAY in values:
        return _read_npy(values.get(_NPY))
    if _MODALITY in values:
        return values.get(_JSON)
    return values


def _read_npy(data: Any) -> NDArray[Any]:
    if not isinstance(data, bytes):
        raise WireError(f"array: {_NPY}: found a value of type {type(data).__name__}, expected bytes")
    stream = io.BytesIO(data)
    try:
        shape, is_fortran, dtype = _HEADERS[npy.read_magic(stream)](stream)
    except Exception as error:  # numpy parses the header with the compiler of Python, which raises anything
        reason = show_value(" ".join(str(error).split()))
        raise WireError(f"array: {_NPY} has no header of the npy format: {reason}") from error
    if dtype.str not in DTYPES:
        raise WireError(f"array: dtype: found {show_value(dtype.str)}, expected one of {', '.join(DTYPES)}")
    found, expected = len(data) - stream.tell(), math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or found != expected:
        raise WireError(
            f"array: found {found} bytes of data, expected {expected} for shape {show_value(shape)}"
        )
    flat = np.frombuffer(data, dtype, offset=stream.tell()) if found else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if is_fortran else "C")
