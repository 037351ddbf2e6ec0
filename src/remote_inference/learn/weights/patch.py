# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The strategy `patch`: the entries that changed since the version before, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.documents.problems import show_value
from remote_inference.learn.weights.changes import Change, Kept, Snapshots
from remote_inference.learn.weights.frames import Header
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.tensors import (
    MODULUS,
    NARROW_COUNT,
    Bits,
    Places,
    Table,
    TensorSpec,
    entries_digest,
    size_of,
)

# -- Where the changed entries of a tensor are: a matrix view, and steps from one entry to the next
#
# A changed row is one step from the changed row before, and the number of its entries; a column is absolute
# where a row begins and a step within it. All are stored in the narrowest unsigned type that holds them.
# A row's number for every entry would be wasted where a row has many: a fifth of the bytes at random places.

Steps = NDArray[np.unsignedinteger[Any]]

_STEP_TYPES = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}


class Coordinates(NamedTuple):
    """Changed entries of a matrix.

    row_steps `[rows]`, row_counts `[rows]` for each changed row, columns `[entries]` for each entry.
    """

    row_steps: Steps
    row_counts: Steps
    columns: Steps


def encode(places: Places, columns: int) -> Coordinates:
    """Return the coordinates of ascending places in a matrix of so many columns."""
    if not places.size:
        empty = np.empty(0, np.uint8)
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
    for part in coordinates:
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
    return values.astype(np.min_scalar_type(int(values.max())).newbyteorder("<"))


def _require(condition: bool, found: str) -> None:
    if not condition:
        raise WeightsError(Reason.PAYLOAD, f"coordinates: found {found}")


DECODED = 3  # times its bytes: what a patch takes until it is applied; no more than another model is allowed


def max_size(table: Table) -> int:
    """Return the most bytes of a patch: one that changes more is sent in buckets."""
    return size_of(table) // DECODED


@dataclass(frozen=True)
class Section:
    """Where the entries of one tensor lie in a payload. widths: bytes of a row step, row count and column."""

    ordinal: int
    spec: TensorSpec
    entries: int
    rows: int
    widths: tuple[int, int, int]

    @property
    def size(self) -> int:
        """Bytes."""
        row_step, row_count, column = self.widths
        value = self.spec.dtype.bits.itemsize
        return self.rows * (row_step + row_count) + self.entries * (column + value)

    def to_list(self) -> list[int]:
        return [self.ordinal, self.entries, self.rows, *self.widths]


@dataclass
class PatchBuilder:
    """Collects the changed entries of tensors, in the order of the table.

    snapshots: of whose memory the tensors are. max_bytes: beyond it nothing more is collected, and the patch
    is not worth sending. change: what the entries change in the digest; it is complete in any case.
    """

    snapshots: Snapshots
    max_bytes: int
    sections: list[Section] = field(default_factory=list)
    size: int = 0
    entries: int = 0
    change: int = 0
    _pieces: list[Bits] = field(default_factory=list)

    @property
    def is_too_large(self) -> bool:
        return self.entries > 0 and self.size > self.max_bytes

    def add(self, ordinal: int, spec: TensorSpec, before: Kept, after: Kept) -> bool:
        """Collect what changed in a tensor. Return whether anything did."""
        count, read_entries = self.snapshots.compare(before, after)
        if not count:
            return False
        self.entries += count
        least = count * (1 + spec.dtype.bits.itemsize)
        if self.size + least > self.max_bytes:  # what is not sent needs no places
            self.size += least
            self._pieces.clear()
            read = self.snapshots.read
            self._change(spec, None, read(before, 0, spec.count), read(after, 0, spec.count))
            return True
        places, old, new = read_entries()
        self._change(spec, places, old, new)
        where = encode(places, spec.columns)
        row_step, row_count, column = (steps.dtype.itemsize for steps in where)
        section = Section(ordinal, spec, new.size, where.row_steps.size, (row_step, row_count, column))
        self.sections.append(section)
        self._pieces += [*where, new]
        self.size += section.size
        return True

    def _change(self, spec: TensorSpec, places: Places | None, before: Bits, after: Bits) -> None:
        self.change += entries_digest(spec, places, after) - entries_digest(spec, places, before)
        self.change %= MODULUS

    def payload(self) -> bytes:
        """Return row steps, row counts, columns and values of each section in turn."""
        return b"".join(piece.tobytes() for piece in self._pieces)


class PatchStager:
    """Stages a patch. See Stager."""

    def __init__(self, header: Header, table: Table) -> None:
        self._sections = _read_sections(header.details, table)
        size, most = sum(section.size for section in self._sections), max_size(table)
        if size > most:
            raise WeightsError(
                Reason.SIZE, f"patch: found {size} bytes, expected {most} at most; more are sent as buckets"
            )
        if header.base_version is None or header.base_digest is None:
            raise WeightsError(Reason.FRAME, "patch: found no base, expected the version that it changes")
        self._bucket_size = header.bucket_size
        self._payload = bytearray(size)
        self.memory = DECODED * size
        self._taken = 0

    def next_size(self) -> int:
        return min(self._bucket_size, len(self._payload) - self._taken)

    def add(self, part: bytes | memoryview) -> None:
        self._payload[self._taken : self._taken + len(part)] = part
        self._taken += len(part)

    def finish(self) -> Sequence[Change]:
        begin, changes = 0, []
        for section in self._sections:
            changes.append(_read_section(section, memoryview(self._payload)[begin : begin + section.size]))
            begin += section.size
        return changes


def _read_section(section: Section, data: memoryview) -> Change:
    spec, begin, parts = section.spec, 0, []
    kinds = [*(_STEP_TYPES[width] for width in section.widths), spec.dtype.bits]
    counts = (section.rows, section.rows, section.entries, section.entries)
    for count, kind in zip(counts, kinds, strict=True):
        parts.append(np.frombuffer(data, kind, count, begin))
        begin += count * kind.itemsize
    *steps, bits = parts
    try:
        places = decode(Coordinates(*steps), spec.columns, spec.count)
    except WeightsError as error:
        raise WeightsError(error.reason, f"patch: {show_value(spec.name)}: {error}") from error
    return Change(spec, places, bits.copy())


def _read_sections(details: Any, table: Table) -> list[Section]:
    if not isinstance(details, list):
        raise WeightsError(Reason.FRAME, f"patch: found {show_value(details)}, expected a list of sections")
    sections: list[Section] = []
    for entry in details:
        sections.append(_read_entry(entry, table, after=sections[-1].ordinal if sections else -1))
    return sections


def _read_entry(entry: Any, table: Table, after: int) -> Section:
    if isinstance(entry, list) and len(entry) == 6 and all(type(number) is int for number in entry):
        ordinal, entries, rows, *widths = entry
        if after < ordinal < len(table) and set(widths) <= _STEP_TYPES.keys():
            spec = table[ordinal]
            if 1 <= rows <= entries <= spec.count:
                return Section(ordinal, spec, entries, rows, (widths[0], widths[1], widths[2]))
    raise WeightsError(
        Reason.PAYLOAD, f"patch: found the section {show_value(entry)} in a table of {len(table)}"
    )
