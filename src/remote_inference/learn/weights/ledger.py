# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The weights that a trainer sends: the newest state, and the patches that lead to it.

A state is never changed once it is here: a sync replaces the arrays of what changed. So a slow server can
still be sent the state that was the newest when its turn came.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from remote_inference.base.documents.problems import show_value
from remote_inference.base.documents.registry import Registry
from remote_inference.learn.weights import bucket, changes, patch
from remote_inference.learn.weights.changes import Entries, Kept, Pair, Snapshots
from remote_inference.learn.weights.frames import MAX_BUCKET_BYTES, MIN_BUCKET_BYTES, Buffer, Header
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.tensors import (
    MODULUS,
    Bits,
    Table,
    Tensors,
    convert,
    copy_as,
    memory_of,
    size_of,
    state_digest,
    table_digest,
)

# -- A trainer's copy of what its receivers have: by the kind of its memory ------------------------------
#
# A kind of memory is one class and one line.


class HostSnapshots:
    """Snapshots in the machine's own memory. See Snapshots."""

    def copy_all(self, tensors: Sequence[Pair]) -> Iterator[Bits]:
        if any(memory_of(tensor) == "cuda" for _, tensor in tensors):
            from remote_inference.learn.weights.device import read_ahead  # noqa: PLC0415  imports torch

            return read_ahead(tensors)
        return (copy_as(tensor, spec) for spec, tensor in tensors)

    def compare(self, before: Bits, after: Bits) -> tuple[int, Callable[[], Entries]]:
        differs = before != after

        def read_entries() -> Entries:
            places = np.flatnonzero(differs)
            return places, before[places], after[places]

        return int(np.count_nonzero(differs)), read_entries

    def read(self, kept: Bits, begin: int, end: int) -> Bits:
        return kept[begin:end]


SNAPSHOTS = Registry[Callable[[], Snapshots]]("memory of the snapshot")  # by torch's word for the device
SNAPSHOTS.add("cpu", HostSnapshots)
SNAPSHOTS.add("cuda", f"{__package__}.device:DeviceSnapshots", needs=("torch",))


@dataclass(frozen=True)
class SenderConfig:
    """How a trainer sends.

    strategy: `patch` (what changed, and everything where that is not less) or `bucket` (everything).
    bucket_size: most bytes of a part. bucket_dtype: in which floating-point tensors travel with `bucket`;
    None: their own. snapshot_device: where the copy is kept with which each version is compared: `cpu`, or
    `cuda` for tensors that are there. answer_s: how long a server may take to greet, to take a part and to
    apply an update.
    """

    strategy: str = "patch"
    bucket_size: int = 16 << 20
    bucket_dtype: str | None = None
    compression: str = "none"
    snapshot_device: str = "cpu"
    answer_s: float = 30.0

    def check(self) -> None:
        """Raise WeightsError for a value that cannot be."""
        for key, known in (("strategy", changes.STRATEGIES.names), ("snapshot_device", SNAPSHOTS.names)):
            if (found := getattr(self, key)) not in known:
                expected = " or ".join(known)
                raise WeightsError(Reason.UNKNOWN, f"{key}: found {show_value(found)}, expected {expected}")
        if not MIN_BUCKET_BYTES <= self.bucket_size <= MAX_BUCKET_BYTES:
            found, expected = show_value(self.bucket_size), f"{MIN_BUCKET_BYTES} to {MAX_BUCKET_BYTES}"
            raise WeightsError(Reason.SIZE, f"bucket_size: found {found}, expected {expected}")
        used = f"with strategy {self.strategy!r}"
        if self.bucket_dtype and self.strategy != "bucket":
            text = f"bucket_dtype: found {self.bucket_dtype!r} {used}, which has none"
            raise WeightsError(Reason.UNKNOWN, text)
        if self.snapshot_device != "cpu" and self.strategy != "patch":
            text = f"snapshot_device: found {self.snapshot_device!r} {used}, expected 'cpu'"
            raise WeightsError(Reason.UNKNOWN, f"{text} where nothing is compared")
        bucket.find_bucket_dtype(self.bucket_dtype)
        changes.make_compression(self.compression)


@dataclass(frozen=True)
class Update:
    """An update to be sent. parts: makes the payload's parts as they travel, anew at each call."""

    header: Header
    parts: Callable[[], Iterable[Buffer]]


@dataclass(frozen=True)
class Snapshot:
    """A version's weights, as its receivers have them. state: by name, in the memory of the snapshots."""

    version: int
    digest: int
    state: Mapping[str, Kept]


@dataclass(frozen=True)
class Built:
    """What a sync made. size: of the payload [bytes], compressed; full_size: of the model."""

    version: int
    strategy: str
    entries: int
    size: int
    full_size: int
    seconds: float


class Ledger:
    """Makes updates of a trainer's tensors. One thread advances it, any may ask for updates.

    Raises WeightsError when the tensors are not those of the table.
    """

    def __init__(self, table: Table, tensors: Tensors, version: int, config: SenderConfig) -> None:
        self.table = table
        self._config = config
        self._bucket_dtype = bucket.find_bucket_dtype(config.bucket_dtype)
        self._compression = changes.make_compression(config.compression)
        self._make_header = partial(
            Header, table=table_digest(table), compression=config.compression, bucket_size=config.bucket_size
        )
        self.full_size = size_of(table)
        self._snapshots = SNAPSHOTS.get(config.snapshot_device)()
        state = dict(zip((spec.name for spec in table), self._copy_tensors(tensors), strict=True))
        read = self._snapshots.read
        digest = state_digest((spec, read(state[spec.name], 0, spec.count)) for spec in table)
        self.newest = Snapshot(version, digest, state)
        # Patches in a row up to the newest state, with their bytes.
        self._history: list[tuple[Update, int]] = []
        self._lock = threading.Lock()

    def advance(self, tensors: Tensors, version: int) -> Built:
        """Copy the trainer's tensors as a new version.

        Raises WeightsError for a version that is not above the newest, and for tensors that are not those of
        the table; nothing has changed then.
        """
        begin_s, before = time.monotonic(), self.newest
        if version <= before.version:
            raise WeightsError(
                Reason.ORDER, f"sync: found version {version}, expected one above {before.version}"
            )
        most = patch.max_size(self.table) if self._config.strategy == "patch" else -1
        builder, state = patch.PatchBuilder(self._snapshots, most), dict(before.state)
        for ordinal, (spec, kept) in enumerate(zip(self.table, self._copy_tensors(tensors), strict=True)):
            if builder.add(ordinal, spec, state[spec.name], kept):
                state[spec.name] = kept
        after = Snapshot(version, (before.digest + builder.change) % MODULUS, state)
        update, size = (None, self.full_size) if builder.is_too_large else self._pack(builder, before, after)
        with self._lock:
            self.newest = after
            self._history = [*self._history, (update, size)] if update else []
            while sum(size for _, size in self._history) > self.full_size:
                self._history.pop(0)  # everything at once is cheaper than the way from there
        strategy = "patch" if update else "bucket"
        return Built(version, strategy, builder.entries, size, self.full_size, time.monotonic() - begin_s)

    def find_update(self, version: int, digest: int, wants_all: bool) -> Update | None:
        """Return what a server of this version needs next, or all if it `wants_all`; None for the newest."""
        with self._lock:
            newest, history = self.newest, [update for update, _ in self._history]
        if (version, digest) == (newest.version, newest.digest):
            return None
        if not wants_all and digest == newest.digest:
            header = self._make_header("patch", newest.version, digest, version, digest, details=[])
            return Update(header, lambda: ())
        known = {update.header.base_digest: update for update in history}
        if not wants_all and digest in known:
            update = known[digest]  # by another name, maybe: a server counts from what it has loaded
            return replace(update, header=replace(update.header, base_version=version))
        details = self._config.bucket_dtype
        header = self._make_header("bucket", newest.version, newest.digest, None, None, details=details)
        return Update(header, lambda: self._fill(newest.state))

    def _pack(self, builder: patch.PatchBuilder, before: Snapshot, after: Snapshot) -> tuple[Update, int]:
        payload, details = builder.payload(), [section.to_list() for section in builder.sections]
        compress, size = self._compression.compress, self._config.bucket_size
        parts = [compress(payload[begin : begin + size]) for begin in range(0, len(payload), size)]
        versions = after.version, after.digest, before.version, before.digest
        header = self._make_header("patch", *versions, details=details)
        return Update(header, lambda: parts), sum(map(len, parts))

    def _fill(self, state: Mapping[str, Kept]) -> Iterator[Buffer]:
        for pieces in bucket.plan(self.table, self._bucket_dtype, self._config.bucket_size):
            bits = (
                convert(self._snapshots.read(state[spec.name], begin, end), spec.dtype, travel)
                for spec, travel, begin, end in pieces
            )
            yield self._compression.compress(b"".join(piece.tobytes() for piece in bits))

    def _copy_tensors(self, tensors: Tensors) -> Iterator[Kept]:
        """Yield copies of the tensors as their receivers have them, in the order of the table."""
        names = {spec.name for spec in self.table}
        if tensors.keys() != names:
            name = sorted(names ^ tensors.keys())[0]
            found, expected = ("nothing", "it") if name in names else ("it", "nothing")
            text = f"{show_value(name)}: found {found}, expected {expected}: the server's model is another"
            raise WeightsError(Reason.ARCHITECTURE, text)
        copies = self._snapshots.copy_all([(spec, tensors[spec.name]) for spec in self.table])
        for spec, kept in zip(self.table, copies, strict=True):
            yield bucket.round_as(kept, spec, self._bucket_dtype)
