# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Compressions of a payload's parts, by name: one class and one line each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from remote_inference.core.documents.registry import Registry
from remote_inference.weights.reasons import Reason, WeightsError


class Compression(Protocol):
    """Makes parts smaller and whole again."""

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


class NvcompLz4(NoCompression):
    """LZ4 on the GPU, which this package does not have: it is named so that its absence is said plainly."""

    def __init__(self) -> None:
        raise WeightsError(
            Reason.UNKNOWN, "compression: 'nvcomp_lz4' needs CUDA and nvCOMP, which this release does not use"
        )


def require_size(found: int, expected: int) -> None:
    """Raise WeightsError when a part has other bytes than its header says."""
    if found != expected:
        raise WeightsError(Reason.SIZE, f"part: found {found} bytes, expected {expected}")


COMPRESSIONS = Registry[Callable[[], Compression]]("compression")
COMPRESSIONS.add("none", NoCompression)
COMPRESSIONS.add("zstd", f"{__package__}.zstd:Zstd", needs=("backports.zstd",))
COMPRESSIONS.add("nvcomp_lz4", NvcompLz4)


def make_compression(name: str) -> Compression:
    """Return a compression. Raises WeightsError for an unknown name, or one whose library is missing."""
    try:
        return COMPRESSIONS.get(name)()
    except (ValueError, ImportError) as error:
        raise WeightsError(Reason.UNKNOWN, f"compression: {error}") from error
