# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A trainer's copy of what its receivers have: by the kind of its memory.

A kind of memory is one class and one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from remote_inference.core.documents.registry import Registry
from remote_inference.weights.changes.bucket import round_as
from remote_inference.weights.changes.snapshot import Difference, Pair, Snapshots
from remote_inference.weights.tensors.coordinates import Places
from remote_inference.weights.tensors.dtypes import Bits, Dtype
from remote_inference.weights.tensors.tensors import copy_as, memory_of


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
        from remote_inference.weights.changes.device_snapshots import read_ahead  # noqa: PLC0415  imports torch

        yield from read_ahead(pairs)
    else:
        yield from (copy_as(tensor, spec) for spec, tensor in pairs)


SNAPSHOTS = Registry[Callable[..., Snapshots]]("memory of the snapshot")  # by torch's word for the device
SNAPSHOTS.add("cpu", HostSnapshots)
SNAPSHOTS.add("cuda", f"{__package__}.device_snapshots:DeviceSnapshots", needs=("torch",))
