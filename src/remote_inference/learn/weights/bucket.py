# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The strategy `bucket`: every tensor whole, in buckets of at most `bucket_size` bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from remote_inference.learn.weights.changes import Change
from remote_inference.learn.weights.frames import Header
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.tensors import (
    Bits,
    Dtype,
    Table,
    TensorSpec,
    convert,
    find_dtype,
    size_of,
)

Piece = tuple[TensorSpec, Dtype, int, int]  # tensor, its type in the bucket, begin and end in values


def type_in_bucket(spec: TensorSpec, bucket_dtype: Dtype | None) -> Dtype:
    """Return the type in which a tensor travels: only floating-point tensors take another."""
    return bucket_dtype if bucket_dtype and spec.dtype.is_floating else spec.dtype


def find_bucket_dtype(name: str | None) -> Dtype | None:
    """Return the type for floating-point tensors, None for their own. Raises WeightsError for another."""
    if name is None:
        return None
    dtype = find_dtype(name, "bucket_dtype")
    if not dtype.is_floating:
        raise WeightsError(Reason.UNKNOWN, f"bucket_dtype: found {name!r}, expected a floating-point type")
    return dtype


def round_as(bits: Bits, spec: TensorSpec, bucket_dtype: Dtype | None) -> Bits:
    """Return what a tensor's bits are when they have travelled, the same without a bucket_dtype."""
    travel = type_in_bucket(spec, bucket_dtype)
    return convert(convert(bits, spec.dtype, travel), travel, spec.dtype)


def plan(table: Table, bucket_dtype: Dtype | None, bucket_size: int) -> Iterator[list[Piece]]:
    """Yield what each bucket holds; both sides make the same plan."""
    bucket: list[Piece] = []
    left = bucket_size
    for spec in table:
        travel = type_in_bucket(spec, bucket_dtype)
        width, begin = travel.bits.itemsize, 0
        while begin < spec.count:
            if left < width:
                yield bucket
                bucket, left = [], bucket_size
            end = min(spec.count, begin + left // width)
            bucket.append((spec, travel, begin, end))
            left -= (end - begin) * width
            begin = end
    if bucket:
        yield bucket


class BucketStager:
    """Stages whole tensors beside the served ones. See Stager."""

    def __init__(self, header: Header, table: Table) -> None:
        details: Any = header.details
        if details is not None and not isinstance(details, str):
            raise WeightsError(Reason.FRAME, "bucket: expected a type or nothing as details")
        self.memory = size_of(table)
        self._plan = plan(table, find_bucket_dtype(details), header.bucket_size)
        self._bits = {spec: np.empty(spec.count, spec.dtype.bits) for spec in table}
        self._next = next(self._plan, [])

    def next_size(self) -> int:
        return sum((end - begin) * travel.bits.itemsize for _, travel, begin, end in self._next)

    def add(self, part: bytes | memoryview) -> None:
        offset = 0
        for spec, travel, begin, end in self._next:
            bits = np.frombuffer(part, travel.bits, end - begin, offset)
            self._bits[spec][begin:end] = convert(bits, travel, spec.dtype)
            offset += bits.nbytes
        self._next = next(self._plan, [])

    def finish(self) -> Sequence[Change]:
        return [Change(spec, None, bits) for spec, bits in self._bits.items()]
