# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A trainer's copy of what its receivers have, wherever it lies.

A kind of memory is one class and one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from remote_inference.core.registry import Registry
from remote_inference.weights.bucket import round_as
from remote_inference.weights.coordinates import Places
from remote_inference.weights.dtypes import Bits, Dtype
from remote_inference.weights.tensors import TensorSpec, copy_as, memory_of

Kept = Any  # a tensor's bits `[count]` in a snapshot's memory, never changed
Pair = tuple[TensorSpec, Any]  # and a trainer's tensor


class Difference(Protocol):
    """The entries in which two kept tensors differ. count: how many."""

    count: int

    def entries(self) -> tuple[Places, Bits, Bits]:
        """Return where they are, and their bits before and after, in the machine's own memory."""


class Snapshots(Protocol):
    """Copies tensors into one kind of memory and finds there what changed."""

    def take(self, tensors: Iterable[Pair]) -> Iterator[Kept]:
        """Yield a copy of each tensor's bits in its receiver's type; all are taken when it has ended.

        Raises WeightsError for a tensor of another shape or type, or in memory that is not taken from.
        """

    def compare(self, before: Kept, after: Kept) -> Difference: ...

    def read(self, kept: Kept, begin: int, end: int) -> Bits:
        """Return bits in the machine's own memory. For any thread."""


class HostSnapshots:
    """In the machine's own memory. See Snapshots."""

    def __init__(self, bucket_dtype: Dtype | None = None) -> None:
        """bucket_dtype: through which floating-point tensors travel, and are rounded."""
        self._bucket_dtype = bucket_dtype

    def take(self, tensors: Iterable[Pair]) -> Iterator[Bits]:
        pairs = list(tensors)
        for (spec, _), bits in zip(pairs, _copy(pairs), strict=True):
            yield round_as(bits, spec, self._bucket_dtype)

    def compare(self, before: Bits, after: Bits) -> Difference:
        return _HostDifference(before, after)

    def read(self, kept: Bits, begin: int, end: int) -> Bits:
        return kept[begin:end]


class _HostDifference:
    def __init__(self, before: Bits, after: Bits) -> None:
        self._before, self._after = before, after
        self._differs = before != after
        self.count = int(np.count_nonzero(self._differs))

    def entries(self) -> tuple[Places, Bits, Bits]:
        places = np.flatnonzero(self._differs)
        return places, self._before[places], self._after[places]


def _copy(pairs: Sequence[Pair]) -> Iterator[Bits]:
    """Yield copies in the machine's own memory."""
    if any(memory_of(tensor) == "cuda" for _, tensor in pairs):
        from remote_inference.weights.device_snapshots import read_ahead  # noqa: PLC0415  imports torch

        yield from read_ahead(pairs)
    else:
        yield from (copy_as(tensor, spec) for spec, tensor in pairs)


SNAPSHOTS = Registry[Callable[..., Snapshots]]("memory of the snapshot")  # by torch's word for the device
SNAPSHOTS.add("cpu", HostSnapshots)
SNAPSHOTS.add("cuda", f"{__package__}.device_snapshots:DeviceSnapshots", needs=("torch",))
