# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Changes of a state, and what makes them of an update's payload: a strategy is one class and one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from remote_inference.core.documents.registry import Registry
from remote_inference.weights.header import Header
from remote_inference.weights.reasons import Reason, WeightsError
from remote_inference.weights.tensors.tensors import Table, TensorSpec


@dataclass(frozen=True)
class Change:
    """New bits `[entries]` of a tensor. places: of the bits; None: the whole tensor.

    Both are arrays of numpy until they are staged, and lie where the served tensor does then.
    """

    spec: TensorSpec
    places: Any
    bits: Any

    @property
    def memory(self) -> int:
        """Bytes that the change takes."""
        places = 0 if self.places is None else self.places.nbytes
        return int(self.bits.nbytes + places)

    def block(self, begin: int, size: int) -> tuple[Any, Any]:
        """Return the bits of at most `size` entries from one on, in the same memory, and their places."""
        bits = self.bits[begin : begin + size]
        if self.places is None:
            return bits, slice(begin, begin + len(bits))
        return bits, self.places[begin : begin + size]


class Stager(Protocol):
    """Takes an update's payload part by part and makes changes of it."""

    memory: int  # bytes that it takes at most

    def next_size(self) -> int:
        """Return the bytes that the next part has, 0 when the payload is whole."""

    def add(self, part: bytes | memoryview) -> None:
        """Take a part of that size."""

    def finish(self) -> Sequence[Change]:
        """Return the changes. Raises WeightsError when the payload does not decode to entries."""


class Stage(Protocol):
    """Begins to stage an update of a strategy."""

    def __call__(self, header: Header, table: Table) -> Stager:
        """Raise WeightsError for a header that asks for more memory than the model has."""


STRATEGIES = Registry[Stage]("strategy")
STRATEGIES.add("patch", f"{__package__}.patch:PatchStager")
STRATEGIES.add("bucket", f"{__package__}.bucket:BucketStager")


def make_stager(header: Header, table: Table) -> Stager:
    """Return what stages an update. Raises WeightsError for an unknown strategy, and what Stage raises."""
    try:
        stage = STRATEGIES.get(header.strategy)
    except ValueError as error:
        raise WeightsError(Reason.UNKNOWN, f"strategy: {error}") from error
    return stage(header, table)
