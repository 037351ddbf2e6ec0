# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the changed entries of a tensor are: a matrix view, and steps from one entry to the next.

A changed row is one step from the changed row before, and the number of its entries; a column is absolute
where a row begins and a step within it. All three are stored in the narrowest unsigned type that holds them.
A row's number for every entry would say nothing where a row has many: at random positions it would be a fifth
of the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.weights.reasons import Reason, WeightsError

Places = NDArray[np.integer[Any]]  # flat positions in a tensor, ascending
Steps = NDArray[np.unsignedinteger[Any]]

STEP_TYPES = tuple(np.dtype(f"<u{width}") for width in (1, 2, 4, 8))
NARROW_COUNT = 1 << 31  # a tensor of fewer values has places of 4 bytes


@dataclass(frozen=True)
class Coordinates:
    """Changed entries of a matrix.

    row_steps `[rows]`, row_counts `[rows]` for each changed row, columns `[entries]` for each entry.
    """

    row_steps: Steps
    row_counts: Steps
    columns: Steps


def encode(places: Places, columns: int) -> Coordinates:
    """Return the coordinates of ascending places in a matrix of so many columns."""
    if not places.size:
        empty = np.empty(0, STEP_TYPES[0])
        return Coordinates(empty, empty, empty)
    rows, steps = np.divmod(places, columns)
    begins = np.flatnonzero(np.diff(rows, prepend=-1))
    absolute = steps[begins]
    steps = np.diff(steps, prepend=0)
    steps[begins] = absolute
    counts = np.diff(begins, append=places.size)
    return Coordinates(*map(_narrow, (np.diff(rows[begins], prepend=0), counts, steps)))


def decode(coordinates: Coordinates, columns: int, count: int) -> Places:
    """Return the places in a tensor of `count` values. Raises WeightsError unless they ascend within it."""
    entries = coordinates.columns.size
    if not entries:
        _require(not coordinates.row_counts.size, "rows without entries")
        return np.empty(0, np.int32)
    # Any step beyond the tensor is refused first: no sum of the rest can overflow unseen.
    for part in (coordinates.row_steps, coordinates.row_counts, coordinates.columns):
        _require(part.size > 0 and int(part.max()) <= count, "a step beyond the tensor")
    rows_told, counts_told = coordinates.row_steps.size, coordinates.row_counts.size
    _require(rows_told == counts_told, f"{rows_told} rows with {counts_told} counts")
    counts = coordinates.row_counts.astype(np.int64)
    _require(bool((counts > 0).all()) and int(counts.sum()) == entries, "rows whose entries do not add up")
    rows = np.cumsum(coordinates.row_steps, dtype=np.int64)
    _require(rows.min() >= 0 and int(rows.max()) * columns < count, "a row beyond the tensor")
    sums = np.cumsum(coordinates.columns, dtype=np.int64)
    begins = np.cumsum(counts) - counts
    before = sums[begins] - coordinates.columns[begins].astype(np.int64)
    sums += np.repeat(rows * columns - before, counts)
    # Each row ends before the next begins, and each entry lies behind the one before.
    ends = np.append(rows[1:], rows[-1] + 1) * columns
    last = sums[begins + counts - 1]
    _require(bool((last < (rows + 1) * columns).all() and (last < ends).all()), "a column beyond its row")
    _require(bool((sums[1:] > sums[:-1]).all()) and sums[0] >= 0 and sums[-1] < count, "places that go back")
    return sums.astype(np.int32) if count < NARROW_COUNT else sums


def _narrow(values: NDArray[np.int64]) -> Steps:
    most = int(values.max())
    fitting = next(kind for kind in STEP_TYPES if most <= np.iinfo(kind).max)
    return values.astype(fitting)


def _require(condition: bool, found: str) -> None:
    if not condition:
        raise WeightsError(Reason.PAYLOAD, f"coordinates: found {found}")
