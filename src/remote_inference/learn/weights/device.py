# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a trainer whose tensors are in a GPU's memory: kept there, or brought to pinned memory.

Kept there, a sync compares, finds and gathers on the device, and only what changed leaves it. In the
machine's own memory, each tensor is copied on a stream of its own while the one before is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from remote_inference.learn.weights.changes import Change, Entries, Pair
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.tensors import (
    NARROW_COUNT,
    Bits,
    Places,
    TensorSpec,
    memory_of,
    require_contiguous,
    require_kind,
    to_integers,
)

# -- Tensors in the memory of a GPU: served ones that are changed there, and what moves bits there and back
#
# Whatever is prepared runs on a stream of its own, beside the policy's. The code is the same for tensors of
# torch in the machine's own memory, which have no streams.


class SideStream:
    """Work on a device beside that of a thread's own stream; without a GPU the thread does it at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def enter(self) -> AbstractContextManager[Any]:
        """Return a context in which work goes to this stream."""
        return torch.cuda.stream(self._stream) if self._stream else nullcontext()

    def follow(self) -> None:
        """Wait, on the device, for the work on the calling thread's own stream."""
        if self._stream:
            self._stream.wait_stream(torch.cuda.current_stream(self._device))

    def mark(self) -> Callable[[], None]:
        """Return what returns when all work that this stream has by now is done."""
        if self._stream is None:
            return lambda: None
        wait: Callable[[], None] = self._stream.record_event().synchronize
        return wait


side_stream = cache(SideStream)  # one for each device


@contextmanager
def memory_errors() -> Iterator[None]:
    """Raise MemoryError for a GPU that is full, as for the machine's own memory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MemoryError(str(error)) from error


def to_host(integers: torch.Tensor) -> Bits:
    """Return bits `[count]` in the machine's own memory; a copy unless they lie there."""
    bits: Bits = integers.cpu().numpy()
    return bits.view(f"<u{integers.element_size()}")


def to_device(array: Any, device: torch.device) -> torch.Tensor:
    """Return a copy of an array of integers on a device, with a sign: torch has few others."""
    width = array.dtype.itemsize
    signed = array.view(np.uint8 if width == 1 else f"<i{width}")
    return torch.from_numpy(signed).to(device, copy=True)


class DeviceTensor:
    """A tensor in a GPU's memory. See ServedTensor."""

    block = 1 << 22

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        """Raise WeightsError for memory that is not contiguous."""
        require_contiguous(name, tensor)
        self._flat: torch.Tensor = to_integers(tensor)
        self._side = side_stream(tensor.device)
        self._side.follow()  # it may just have been loaded

    def read(self, places: Places | None) -> Bits:
        with memory_errors(), torch.inference_mode(), self._side.enter():
            if places is None:
                return to_host(self._flat)
            return to_host(self._flat[to_device(places, self._flat.device)])

    def stage(self, change: Change) -> Change:
        device = self._flat.device
        with memory_errors(), torch.inference_mode(), self._side.enter():
            places = None if change.places is None else to_device(change.places, device)
            staged = replace(change, places=places, bits=to_device(change.bits, device))
        self._side.mark()()
        return staged

    def swap(self, change: Change, begin: int) -> None:
        new, where = change.block(begin, self.block)
        with memory_errors(), torch.inference_mode():
            old = self._flat[where].clone()
            self._flat[where] = new
            new.copy_(old)
        for used in (change.bits, change.places):
            if used is not None and used.is_cuda:  # it is freed only when the policy's stream is done with it
                used.record_stream(torch.cuda.current_stream(used.device))

    def settle(self) -> None:
        if self._flat.is_cuda:
            torch.cuda.current_stream(self._flat.device).synchronize()


class DeviceSnapshots:
    """Snapshots in the memory of the GPUs where the trainer's tensors are. See Snapshots."""

    def copy_all(self, tensors: Iterable[Pair]) -> Iterator[torch.Tensor]:
        for spec, tensor in tensors:
            require_kind(tensor, spec)
            if (found := memory_of(tensor)) != "cuda":
                raise WeightsError(
                    Reason.ARCHITECTURE,
                    f"{spec.name}: found it on {found}, expected it on cuda as snapshot_device says",
                )
            side = side_stream(tensor.device)
            side.follow()
            with _memory_for(f"{spec.name}: its snapshot"), torch.inference_mode(), side.enter():
                copied = _as_kept(tensor, spec, copy=True)
            side.mark()()  # the trainer may change the tensor when its sync returns
            yield copied

    def compare(self, before: torch.Tensor, after: torch.Tensor) -> tuple[int, Callable[[], Entries]]:
        side = side_stream(after.device)
        with _memory_for("what changed"), torch.inference_mode(), side.enter():
            differs = before != after
            count = int(differs.count_nonzero())

        def read_entries() -> Entries:
            with _memory_for("what changed"), torch.inference_mode(), side.enter():
                places = differs.nonzero().squeeze(1)
                old, new = (to_host(kept[places]) for kept in (before, after))
                narrow = torch.int32 if differs.numel() < NARROW_COUNT else torch.int64
                found: Any = places.to(narrow).cpu().numpy()
                return found, old, new

        return count, read_entries

    def read(self, kept: torch.Tensor, begin: int, end: int) -> Bits:
        with torch.inference_mode(), side_stream(kept.device).enter():
            return to_host(kept[begin:end])


@contextmanager
def _memory_for(what: str) -> Iterator[None]:
    """Raise WeightsError for a GPU that is full. what: is to be held or made there."""
    try:
        with memory_errors():
            yield
    except MemoryError as error:
        raise WeightsError(Reason.MEMORY, f"{what}: found no memory on the GPU") from error


def read_ahead(tensors: Iterable[Pair]) -> Iterator[Bits]:
    """Yield copies in pinned memory, each made while the one before is used. Raises as require_kind does."""
    coming: list[Callable[[], Bits]] = []
    for spec, tensor in tensors:
        coming.append(_begin_copy(spec, tensor))
        if len(coming) > 1:
            yield coming.pop(0)()
    yield from (arrive() for arrive in coming)


def _begin_copy(spec: TensorSpec, tensor: torch.Tensor) -> Callable[[], Bits]:
    """Return a function that waits for a copy, which begins now, and returns it."""
    require_kind(tensor, spec)
    side = side_stream(tensor.device)
    side.follow()
    with _memory_for(f"{spec.name}: its copy"), torch.inference_mode(), side.enter():
        kept = _as_kept(tensor, spec, copy=False)
        pinned = torch.empty(kept.shape, dtype=kept.dtype, pin_memory=kept.is_cuda)
        pinned.copy_(kept, non_blocking=True)
    wait = side.mark()

    def arrive() -> Bits:
        wait()
        return to_host(pinned)

    return arrive


def _as_kept(tensor: torch.Tensor, spec: TensorSpec, *, copy: bool) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, spec.dtype.name)
    kept: torch.Tensor = to_integers(tensor.detach().to(dtype, copy=copy).contiguous())
    return kept
