# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The tensors of a model at both ends of a transfer: a table that both agree on, and bits.

Tensors are numpy arrays or torch tensors. torch is used only where it is already imported: nobody has a
tensor of torch without it.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from remote_inference.base.documents.problems import show_value
from remote_inference.learn.weights.reasons import Reason, WeightsError

# -- The types of tensors, and their values as bits ------------------------------------------------------
#
# A tensor is handled as an array of unsigned integers of its own width: bits are compared and copied, never
# values, so that a NaN keeps its payload and -0.0 is not 0.0. numpy has no bfloat16, and needs none here.

Bits = NDArray[np.unsignedinteger[Any]]  # [count], of a tensor
Places = NDArray[np.integer[Any]]  # flat positions in a tensor, ascending
NARROW_COUNT = 1 << 31  # a tensor of fewer values has places of 4 bytes
_CHECK_BLOCK = 1 << 20  # values checked in one go: temporary arrays stay small


@dataclass(frozen=True)
class Dtype:
    """How the values of a type are stored. exponent: its bits in a number, 0 unless it is a float."""

    name: str
    bits: np.dtype[np.unsignedinteger[Any]]
    exponent: int = 0

    @property
    def is_floating(self) -> bool:
        return self.exponent != 0


_WIDTHS = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8}
_WIDTHS |= {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8}
_EXPONENTS = {"bfloat16": 0x7F80, "float16": 0x7C00, "float32": 0x7F80_0000, "float64": 0x7FF0_0000_0000_0000}
DTYPES = {
    name: Dtype(name, np.dtype(f"<u{width}"), _EXPONENTS.get(name, 0)) for name, width in _WIDTHS.items()
}


def find_dtype(name: Any, where: str) -> Dtype:
    """Return the type of a name. where: for the error. Raises WeightsError for one that does not travel."""
    if not isinstance(name, str) or name not in DTYPES:
        expected = ", ".join(DTYPES)
        raise WeightsError(Reason.UNKNOWN, f"{where}: found {show_value(name)}, expected one of {expected}")
    return DTYPES[name]


def check_values(bits: Bits, dtype: Dtype, where: str, allow_nonfinite: bool) -> None:
    """Raise WeightsError for a float that is not finite, and for a bool that is neither true nor false."""
    for begin in range(0, bits.size, _CHECK_BLOCK):
        block = bits[begin : begin + _CHECK_BLOCK]
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


MAX_TENSORS = 100_000
MAX_RANK = 16
MAX_COUNT = 1 << 40  # values of a tensor

Tensors = Mapping[str, Any]  # name to numpy array or torch tensor


@dataclass(frozen=True)
class TensorSpec:
    """A tensor's name, type and shape; on both sides the same."""

    name: str
    dtype: Dtype
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.count * self.dtype.bits.itemsize

    @property
    def columns(self) -> int:
        """Of the view as a matrix: a vector is one row; of more dimensions the first are the rows."""
        return self.count if len(self.shape) < 2 else math.prod(self.shape[1:])


Table = Sequence[TensorSpec]


def describe(tensors: Tensors) -> tuple[TensorSpec, ...]:
    """Return the table of a model, by name. Raises WeightsError for a type that does not travel."""
    return tuple(
        TensorSpec(name, find_dtype(_dtype_name(tensor), name), tuple(tensor.shape))
        for name, tensor in sorted(tensors.items())
    )


def size_of(table: Table) -> int:
    """Return the bytes of a model."""
    return sum(spec.size for spec in table)


def memory_of(tensor: Any) -> str:
    """Return where a tensor lies: torch's word for the kind of its device."""
    return "cpu" if isinstance(tensor, np.ndarray) else str(tensor.device.type)


def span_of(tensor: Any) -> tuple[str, int, int]:
    """Return a contiguous tensor's device, and the addresses of its memory from begin to before end."""
    if isinstance(tensor, np.ndarray):
        begin = int(tensor.ctypes.data)
        return "cpu", begin, begin + tensor.nbytes
    begin = tensor.data_ptr()
    return str(tensor.device), begin, begin + tensor.numel() * tensor.element_size()


def require_contiguous(name: str, tensor: Any) -> None:
    """Raise WeightsError for a tensor whose memory is not contiguous."""
    is_numpy = isinstance(tensor, np.ndarray)
    if not (tensor.flags.c_contiguous if is_numpy else tensor.is_contiguous()):
        raise WeightsError(Reason.ARCHITECTURE, f"{name}: its memory is not contiguous, expected it to be")


def view_one(name: str, tensor: Any) -> Bits:
    """Return the bits `[count]` of a tensor in the machine's own memory: writing to them changes the tensor.

    Raises WeightsError for one whose memory is not contiguous, or not the machine's own.
    """
    bits = find_dtype(_dtype_name(tensor), name).bits
    is_numpy = isinstance(tensor, np.ndarray)
    if not is_numpy and tensor.device.type != "cpu":
        raise WeightsError(Reason.ARCHITECTURE, f"{name}: found it on {tensor.device}, expected it on cpu")
    require_contiguous(name, tensor)
    own: Bits = (tensor.reshape(-1) if is_numpy else to_integers(tensor).numpy()).view(bits)
    return own


def to_integers(tensor: Any) -> Any:
    """Return a contiguous torch tensor's bits `[count]` as integers of its width, in the same memory."""
    torch = sys.modules["torch"]
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.detach().reshape(-1).view(integers[tensor.element_size()])


def require_kind(tensor: Any, spec: TensorSpec) -> Dtype:
    """Return a trainer's tensor's own type. Raises WeightsError unless shape and kind are the receiver's."""
    name = _dtype_name(tensor)
    source = find_dtype(name, spec.name)
    if tuple(tensor.shape) != spec.shape:
        raise WeightsError(
            Reason.ARCHITECTURE, f"{spec.name}: found shape {tuple(tensor.shape)}, expected {spec.shape}"
        )
    if source != spec.dtype and not (source.is_floating and spec.dtype.is_floating):
        raise WeightsError(Reason.ARCHITECTURE, f"{spec.name}: found {name}, expected {spec.dtype.name}")
    return source


def copy_as(tensor: Any, spec: TensorSpec) -> Bits:
    """Return a copy of a tensor's bits `[count]` in its receiver's type. Raises as `require_kind` does."""
    source = require_kind(tensor, spec)
    is_numpy = isinstance(tensor, np.ndarray)
    plain = np.ascontiguousarray(tensor) if is_numpy else tensor.detach().to(device="cpu").contiguous()
    bits = convert(view_one(spec.name, plain), source, spec.dtype)
    return bits.copy() if source == spec.dtype else bits


def find_difference(found: Table, expected: Table) -> str:
    """Return the first difference of two tables in words; empty when there is none."""
    there = {spec.name: spec for spec in found}
    for spec in expected:
        if spec.name not in there:
            return f"{show_value(spec.name)}: missing"
        other = there.pop(spec.name)
        if other.shape != spec.shape:
            return f"{show_value(spec.name)}: found shape {other.shape}, expected {spec.shape}"
        if other.dtype != spec.dtype:
            return f"{show_value(spec.name)}: found {other.dtype.name}, expected {spec.dtype.name}"
    return f"{show_value(next(iter(there)))}: not part of this model" if there else ""


def table_digest(table: Table) -> bytes:
    """Return 16 bytes that change with names, types and shapes."""
    return hashlib.sha256(msgpack.packb(table_to_list(table))).digest()[:16]


def table_to_list(table: Table) -> list[list[Any]]:
    return [[spec.name, spec.dtype.name, list(spec.shape)] for spec in table]


def table_from_list(value: Any) -> tuple[TensorSpec, ...]:
    """Return the table that `table_to_list` has written. Raises WeightsError for anything else."""
    if not isinstance(value, list) or len(value) > MAX_TENSORS:
        raise WeightsError(Reason.FRAME, f"table: expected a list of at most {MAX_TENSORS} tensors")
    table = tuple(_spec_from(entry) for entry in value)
    if len({spec.name for spec in table}) != len(table):
        raise WeightsError(Reason.FRAME, "table: found two tensors of one name")
    return table


def _spec_from(entry: Any) -> TensorSpec:
    if not isinstance(entry, list) or len(entry) != 3 or not isinstance(entry[0], str):
        raise WeightsError(Reason.FRAME, f"table: found {show_value(entry)}, expected name, type and shape")
    name, dtype, shape = entry
    is_shape = (
        isinstance(shape, list)
        and len(shape) <= MAX_RANK
        and all(type(side) is int and 0 <= side <= MAX_COUNT for side in shape)
        and math.prod(shape) <= MAX_COUNT
    )
    if not is_shape:
        raise WeightsError(Reason.FRAME, f"table: {show_value(name)}: found shape {show_value(shape)}")
    return TensorSpec(name, find_dtype(dtype, "table"), tuple(shape))


def _dtype_name(tensor: Any) -> str:
    if isinstance(tensor, np.ndarray):
        return str(tensor.dtype.name if tensor.dtype.isnative else tensor.dtype)
    return str(getattr(tensor, "dtype", type(tensor).__name__)).removeprefix("torch.")


# -- The digest of a state of weights: 64 bits, a sum over all entries, so that it follows from the one before
#
# Each entry adds a number made of its place and its bits. An update's digest costs what changed, not what the
# model holds, on both sides. It detects errors; it does not show who has sent the weights, which is the
# transport's task.

MODULUS = 1 << 64
_DIGEST_BLOCK = 1 << 16  # entries of a step: the temporary arrays stay in a processor's cache
# Odd numbers without a pattern; each multiplication and shift carries a change on to the other bits.
_PLACE = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def state_digest(state: Iterable[tuple[TensorSpec, Bits]]) -> int:
    """Return the digest of a whole state: all its tensors, each with its bits `[count]`."""
    return sum(entries_digest(spec, None, bits) for spec, bits in state) % MODULUS


def entries_digest(spec: TensorSpec, places: Places | None, bits: Bits) -> int:
    """Return what entries of a tensor add to the digest. places: of the bits; None: the whole tensor."""
    named = f"{spec.name}\0{spec.dtype.name}\0{spec.shape}".encode()
    seed = np.uint64(int.from_bytes(hashlib.sha256(named).digest()[:8], "little"))
    total = 0
    for begin in range(0, bits.size, _DIGEST_BLOCK):
        block = bits[begin : begin + _DIGEST_BLOCK]
        where: NDArray[Any] = (
            np.arange(begin, begin + block.size, dtype=np.uint64)
            if places is None
            else places[begin : begin + _DIGEST_BLOCK].astype(np.uint64)
        )
        mixed: NDArray[np.uint64] = where * _PLACE + seed
        _spread(mixed, _FIRST)
        mixed ^= block
        _spread(mixed, _SECOND)
        _spread(mixed, _FIRST)
        total += int(mixed.sum(dtype=np.uint64))
    return total % MODULUS


def show_digest(digest: int) -> str:
    return f"{digest:016x}"


def _spread(values: NDArray[np.uint64], factor: np.uint64) -> None:
    values ^= values >> np.uint64(29)
    values *= factor
