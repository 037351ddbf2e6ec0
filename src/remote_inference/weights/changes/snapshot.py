# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a trainer's copy of what its receivers have can do, wherever it lies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from remote_inference.weights.tensors.coordinates import Places
from remote_inference.weights.tensors.dtypes import Bits
from remote_inference.weights.tensors.tensors import TensorSpec

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
