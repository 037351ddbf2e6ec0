# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The types of tensors, and their values as bits.

A tensor is handled as an array of unsigned integers of its own width: bits are compared and copied, never
values, so that a NaN keeps its payload and -0.0 is not 0.0. numpy has no bfloat16, and needs none here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.documents.problems import show_value
from remote_inference.weights.reasons import Reason, WeightsError

Bits = NDArray[np.unsignedinteger[Any]]  # [count], of a tensor
_BLOCK = 1 << 20  # values looked at in one go: temporary arrays stay small


@dataclass(frozen=True)
class Dtype:
    """How the values of a type are stored. exponent: its bits in a number, 0 unless it is a float."""

    name: str
    bits: np.dtype[np.unsignedinteger[Any]]
    exponent: int = 0

    @property
    def is_floating(self) -> bool:
        return self.exponent != 0


def _table() -> Mapping[str, Dtype]:
    exponents = {
        "bfloat16": (2, 0x7F80),
        "float16": (2, 0x7C00),
        "float32": (4, 0x7F80_0000),
        "float64": (8, 0x7FF0_0000_0000_0000),
    }
    widths = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8}
    plain = {name: Dtype(name, np.dtype(f"<u{width}")) for name, width in widths.items()}
    floats = {name: Dtype(name, np.dtype(f"<u{width}"), mask) for name, (width, mask) in exponents.items()}
    return plain | floats


DTYPES = _table()


def find_dtype(name: Any, where: str) -> Dtype:
    """Return the type of a name. where: for the error. Raises WeightsError for one that does not travel."""
    if not isinstance(name, str) or name not in DTYPES:
        expected = ", ".join(DTYPES)
        raise WeightsError(Reason.UNKNOWN, f"{where}: found {show_value(name)}, expected one of {expected}")
    return DTYPES[name]


def check_values(bits: Bits, dtype: Dtype, where: str, allow_nonfinite: bool) -> None:
    """Raise WeightsError for a float that is not finite, and for a bool that is neither true nor false."""
    for begin in range(0, bits.size, _BLOCK):
        block = bits[begin : begin + _BLOCK]
        if dtype.name == "bool" and (block > 1).any():
            raise WeightsError(Reason.VALUES, f"{where}: found a bool of {block.max()}, expected 0 or 1")
        if dtype.is_floating and not allow_nonfinite:
            mask = dtype.bits.type(dtype.exponent)
            if count := int(np.count_nonzero((block & mask) == mask)):
                raise WeightsError(
                    Reason.VALUES, f"{where}: found {count} values that are not finite, expected none"
                )


def convert(bits: Bits, source: Dtype, target: Dtype) -> Bits:
    """Return values as another floating-point type, rounded to the nearest, ties to even.

    What ends in 16 bits is rounded to float32 before, as torch does. Both ends of a transfer call this, so
    that they agree on every bit. Values of one type are not copied.
    """
    if source == target:
        return bits
    if source.name == "bfloat16":
        wide = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    else:
        wide = bits.view(source.name)
    with np.errstate(over="ignore", invalid="ignore"):  # to infinity, as every conversion
        if target.bits.itemsize == 2:
            wide = wide.astype(np.float32, copy=False)
        if target.name == "bfloat16":
            return _to_bfloat16(wide.view(np.uint32))
        converted: Bits = wide.astype(target.name).view(target.bits)
        return converted


def _to_bfloat16(bits: NDArray[np.uint32]) -> Bits:
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    is_nan = (bits & np.uint32(0x7FFF_FFFF)) > np.uint32(0x7F80_0000)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    short: Bits = np.where(is_nan, quiet, rounded).astype(np.uint16)
    return short
