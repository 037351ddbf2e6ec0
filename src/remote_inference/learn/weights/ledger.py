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

import numpy as np

from remote_inference.base.documents.problems import show_value
from remote_inference.base.documents.registry import Registry
from remote_inference.learn.weights import bucket, patch
from remote_inference.learn.weights.bucket import round_as
from remote_inference.learn.weights.changes import (
    STRATEGIES,
    Difference,
    Kept,
    Pair,
    Snapshots,
    make_compression,
)
from remote_inference.learn.weights.frames import MAX_BUCKET_BYTES, MIN_BUCKET_BYTES, Buffer, Header
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.tensors import (
    MODULUS,
    Bits,
    Dtype,
    Places,
    Table,
    Tensors,
    TensorSpec,
    copy_as,
    entries_digest,
    memory_of,
    size_of,
    table_digest,
)

# -- A trainer's copy of what its receivers have: by the kind of its memory ------------------------------
#
# A kind of memory is one class and one line.


class HostSnapshots:
    """Snapshots in the machine's own memory. See Snapshots."""

    def __init__(self, bucket_dtype: Dtype | None = None) -> None:
        """bucket_dtype: through which floating-point tensors travel, and are rounded."""
        self._bucket_dtype = bucket_dtype

    def copy_all(self, tensors: Iterable[Pair]) -> Iterator[Bits]:
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
        from remote_inference.learn.weights.device import read_ahead  # noqa: PLC0415  imports torch

        yield from read_ahead(pairs)
    else:
        yield from (copy_as(tensor, spec) for spec, tensor in pairs)


SNAPSHOTS = Registry[Callable[..., Snapshots]]("memory of the snapshot")  # by torch's word for the device
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
        for key, known in (("strategy", STRATEGIES.names), ("snapshot_device", SNAPSHOTS.names)):
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
        make_compression(self.compression)


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
        self._compression = make_compression(config.compression)
        self._table_digest = table_digest(table)
        self.full_size = size_of(table)
        self._snapshots = SNAPSHOTS.get(config.snapshot_device)(self._bucket_dtype)
        state, digest = {}, 0
        for spec, kept in zip(table, self._copy_tensors(tensors), strict=True):
            state[spec.name] = kept
            digest += entries_digest(spec, None, self._snapshots.read(kept, 0, spec.count))
        self._newest = Snapshot(version, digest % MODULUS, state)
        # Patches in a row up to the newest state, with their bytes.
        self._history: list[tuple[Update, int]] = []
        self._lock = threading.Lock()

    @property
    def newest(self) -> Snapshot:
        return self._newest

    def advance(self, tensors: Tensors, version: int) -> Built:
        """Copy the trainer's tensors as a new version.

        Raises WeightsError for a version that is not above the newest, and for tensors that are not those of
        the table; nothing has changed then.
        """
        begin_s, before = time.monotonic(), self._newest
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
            self._newest = after
            self._history = [*self._history, (update, size)] if update else []
            while sum(size for _, size in self._history) > self.full_size:
                self._history.pop(0)  # everything at once is cheaper than the way from there
        strategy = "patch" if update else "bucket"
        return Built(version, strategy, builder.entries, size, self.full_size, time.monotonic() - begin_s)

    def find_update(self, version: int, digest: int, wants_all: bool) -> Update | None:
        """Return what a server of this version needs next, None when it has the newest state.

        wants_all: whether it is to be sent everything, whatever it has.
        """
        with self._lock:
            newest, history = self._newest, [update for update, _ in self._history]
        if (version, digest) == (newest.version, newest.digest):
            return None
        if not wants_all and digest == newest.digest:
            return Update(self._header("patch", newest, (version, digest), []), lambda: ())
        known = {update.header.base_digest: update for update in history}
        if not wants_all and digest in known:
            update = known[digest]  # by another name, maybe: a server counts from what it has loaded
            return replace(update, header=replace(update.header, base_version=version))
        return Update(
            self._header("bucket", newest, None, self._config.bucket_dtype), lambda: self._fill(newest.state)
        )

    def _pack(self, builder: patch.PatchBuilder, before: Snapshot, after: Snapshot) -> tuple[Update, int]:
        payload, details = builder.payload(), [section.to_list() for section in builder.sections]
        compress = self._compression.compress
        parts = [compress(bytes(part)) for part in patch.cut(payload, self._config.bucket_size)]
        header = self._header("patch", after, (before.version, before.digest), details)
        return Update(header, lambda: parts), sum(map(len, parts))

    def _fill(self, state: Mapping[str, Kept]) -> Iterable[Buffer]:
        def read(spec: TensorSpec, begin: int, end: int) -> Bits:
            return self._snapshots.read(state[spec.name], begin, end)

        for part in bucket.fill(read, self.table, self._bucket_dtype, self._config.bucket_size):
            yield self._compression.compress(part)

    def _header(
        self, strategy: str, after: Snapshot, base: tuple[int, int] | None, details: object
    ) -> Header:
        base_version, base_digest = base or (None, None)
        return Header(
            strategy=strategy,
            version=after.version,
            digest=after.digest,
            base_version=base_version,
            base_digest=base_digest,
            table=self._table_digest,
            compression=self._config.compression,
            bucket_size=self._config.bucket_size,
            details=details,
        )

    def _copy_tensors(self, tensors: Tensors) -> Iterator[Kept]:
        """Yield copies of the tensors in the order of the table."""
        names = {spec.name for spec in self.table}
        if tensors.keys() != names:
            name = sorted(names ^ tensors.keys())[0]
            found, expected = ("nothing", "it") if name in names else ("it", "nothing")
            text = f"{show_value(name)}: found {found}, expected {expected}: the server's model is another"
            raise WeightsError(Reason.ARCHITECTURE, text)
        yield from self._snapshots.copy_all((spec, tensors[spec.name]) for spec in self.table)
