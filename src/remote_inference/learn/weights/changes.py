# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Changes of tensors, and the strategies that make them of an update's payload: one class and line each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from remote_inference.base.documents.registry import Registry
from remote_inference.learn.weights.frames import Header
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.tensors import Bits, Places, Table, TensorSpec

# -- Compressions of a payload's parts, by name: one class and one line each -----------------------------


class Compression(Protocol):
    """Compresses and decompresses parts."""

    def compress(self, data: bytes) -> bytes: ...

    def decompress(self, data: bytes, size: int) -> bytes:
        """Return the bytes, in memory for `size` of them. Raises WeightsError unless they are so many."""


class NoCompression:
    """Leaves the bytes as they are."""

    def compress(self, data: bytes) -> bytes:
        return data

    def decompress(self, data: bytes, size: int) -> bytes:
        require_size(len(data), size)
        return data


class Zstd:
    """Zstandard, from Python 3.14 on in its library, before in `backports.zstd`."""

    def __init__(self) -> None:
        if sys.version_info >= (3, 14):
            from compression import zstd  # noqa: PLC0415
        else:
            from backports import zstd  # noqa: PLC0415
        self._zstd = zstd

    def compress(self, data: bytes) -> bytes:
        # Values of trained weights hardly shrink further at any level.
        compressed: bytes = self._zstd.compress(data, level=1)
        return compressed

    def decompress(self, data: bytes, size: int) -> bytes:
        # 16 MiB: all that a frame may ask of the memory.
        options: dict[int, int] = {self._zstd.DecompressionParameter.window_log_max: 24}
        decompressor = self._zstd.ZstdDecompressor(options=options)
        try:
            found: bytes = decompressor.decompress(data, max_length=size + 1)
        except (self._zstd.ZstdError, EOFError) as error:
            raise WeightsError(Reason.PAYLOAD, f"part: zstd cannot decompress it: {error}") from error
        require_size(len(found), size)
        return found


def require_size(found: int, expected: int) -> None:
    """Raise WeightsError when a part has another size than its header."""
    if found != expected:
        raise WeightsError(Reason.SIZE, f"part: found {found} bytes, expected {expected}")


COMPRESSIONS = Registry[Callable[[], Compression]]("compression")
COMPRESSIONS.add("none", NoCompression)
COMPRESSIONS.add("zstd", Zstd, needs=("backports.zstd",))


def make_compression(name: str) -> Compression:
    """Return a compression. Raises WeightsError for an unknown name, or one whose library is missing."""
    try:
        return COMPRESSIONS.get(name)()
    except (ValueError, ImportError) as error:
        raise WeightsError(Reason.UNKNOWN, f"compression: {error}") from error


# -- A trainer's copy of its receivers' tensors, wherever it lies ----------------------------------------

Kept = Any  # a tensor's bits `[count]` in a snapshot's memory, never changed
Pair = tuple[TensorSpec, Any]  # and a trainer's tensor
Entries = tuple[Places, Bits, Bits]  # places, bits before and after, in the machine's own memory


class Snapshots(Protocol):
    """Copies tensors into one kind of memory and finds there what changed."""

    def copy_all(self, tensors: Sequence[Pair]) -> Iterator[Kept]:
        """Yield a copy of each tensor's bits in its receiver's type; all are taken when it has ended.

        Raises WeightsError for a tensor of another shape or type, or in memory that is not taken from.
        """

    def compare(self, before: Kept, after: Kept) -> tuple[int, Callable[[], Entries]]:
        """Return how many entries of two copies differ, and what reads them."""

    def read(self, kept: Kept, begin: int, end: int) -> Bits:
        """Return bits in the machine's own memory. For any thread."""


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
    """Collects an update's payload part by part and makes changes of it."""

    memory: int  # bytes that it takes at most

    def next_size(self) -> int:
        """Return the bytes that the next part has, 0 when the payload is whole."""

    def add(self, part: bytes | memoryview) -> None:
        """Add a part of that size."""

    def finish(self) -> Sequence[Change]:
        """Return the changes. Raises WeightsError when the payload does not decode to entries."""


# Begins to stage an update. Raises WeightsError for a header that asks for more memory than the model has.
Stage = Callable[[Header, Table], Stager]

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
