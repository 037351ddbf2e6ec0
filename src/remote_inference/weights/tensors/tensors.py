# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The tensors of a model as the two ends of a transfer see them: a table that both agree on, and bits.

Tensors are numpy arrays or torch tensors. torch is used only where it is already imported: nobody has a
tensor of torch without it.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack
import numpy as np

from remote_inference.core.documents.problems import show_value
from remote_inference.weights.reasons import Reason, WeightsError
from remote_inference.weights.tensors.dtypes import Bits, Dtype, convert, find_dtype

MAX_TENSORS = 100_000
MAX_RANK = 16
MAX_COUNT = 1 << 40  # values of a tensor

Tensors = Mapping[str, Any]  # name to numpy array or torch tensor
State = Mapping[str, Bits]  # name to the tensor's bits `[count]`


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


class Span(NamedTuple):
    """Addresses of a contiguous tensor's memory on a device, from `begin` to before `end`."""

    device: str
    begin: int
    end: int

    def overlaps(self, later: Span) -> bool:
        """Return whether one that begins no earlier has a byte in common with this one."""
        return self.device == later.device and later.begin < self.end and later.begin < later.end


def span_of(tensor: Any) -> Span:
    """Return where the memory of a contiguous tensor lies."""
    if isinstance(tensor, np.ndarray):
        begin = int(tensor.ctypes.data)
        return Span("cpu", begin, begin + tensor.nbytes)
    begin = tensor.data_ptr()
    return Span(str(tensor.device), begin, begin + tensor.numel() * tensor.element_size())


def view_one(name: str, tensor: Any) -> Bits:
    """Return the bits `[count]` of a tensor in the machine's own memory: writing to them changes the tensor.

    Raises WeightsError for one whose memory is not contiguous, or not the machine's own.
    """
    bits = find_dtype(_dtype_name(tensor), name).bits
    if isinstance(tensor, np.ndarray):
        if not tensor.flags.c_contiguous:
            raise WeightsError(
                Reason.ARCHITECTURE, f"{name}: its memory is not contiguous, expected it to be"
            )
        own: Bits = tensor.reshape(-1).view(bits)
        return own
    torch = sys.modules["torch"]
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        raise WeightsError(Reason.ARCHITECTURE, f"{name}: found it on {tensor.device}, expected it on cpu")
    if not tensor.is_contiguous():
        raise WeightsError(Reason.ARCHITECTURE, f"{name}: its memory is not contiguous, expected it to be")
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    flat: Bits = tensor.reshape(-1).view(integers[bits.itemsize]).numpy().view(bits)
    return flat


def require_kind(tensor: Any, spec: TensorSpec) -> Dtype:
    """Return a trainer's tensor's own type.

    Raises WeightsError for another shape than the receiver's, and for another type unless both are
    floating-point.
    """
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
    """Return a copy of the bits `[count]` of a tensor in the machine's own memory, in its receiver's type.

    Raises what `require_kind` raises.
    """
    source = require_kind(tensor, spec)
    plain = np.ascontiguousarray(tensor) if isinstance(tensor, np.ndarray) else _on_cpu(tensor)
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
    """Return a table as plain values."""
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


def _on_cpu(tensor: Any) -> Any:
    return tensor.detach().to(device="cpu").contiguous()
