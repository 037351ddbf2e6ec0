# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a trainer whose tensors are in a GPU's memory: kept there, or brought to pinned memory.

Kept there, a sync compares, finds and gathers on the device, and only what changed leaves it. In the
machine's own memory, each tensor is copied on a stream of its own while the one before is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from remote_inference.weights.changes.device_tensor import memory_errors, side_stream, to_host, to_integers
from remote_inference.weights.changes.snapshot import Difference, Pair
from remote_inference.weights.reasons import Reason, WeightsError
from remote_inference.weights.tensors.coordinates import NARROW_COUNT, Places
from remote_inference.weights.tensors.dtypes import Bits, Dtype
from remote_inference.weights.tensors.tensors import TensorSpec, memory_of, require_kind


class DeviceSnapshots:
    """In the memory of the GPUs where the trainer's tensors are. See Snapshots."""

    def __init__(self, bucket_dtype: Dtype | None = None) -> None:
        """bucket_dtype: None, as patches travel in the receivers' own types."""
        assert bucket_dtype is None, "SenderConfig has refused it"

    def take(self, tensors: Iterable[Pair]) -> Iterator[torch.Tensor]:
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

    def compare(self, before: torch.Tensor, after: torch.Tensor) -> Difference:
        return _DeviceDifference(before, after)

    def read(self, kept: torch.Tensor, begin: int, end: int) -> Bits:
        with torch.inference_mode(), side_stream(kept.device).enter():
            return to_host(kept[begin:end])


class _DeviceDifference:
    def __init__(self, before: torch.Tensor, after: torch.Tensor) -> None:
        self._before, self._after = before, after
        self._side = side_stream(after.device)
        with _memory_for("what changed"), torch.inference_mode(), self._side.enter():
            self._differs = before != after
            self.count = int(self._differs.count_nonzero())

    def entries(self) -> tuple[Places, Bits, Bits]:
        with _memory_for("what changed"), torch.inference_mode(), self._side.enter():
            places = self._differs.nonzero().squeeze(1)
            before, after = (to_host(kept[places]) for kept in (self._before, self._after))
            narrow = torch.int32 if self._differs.numel() < NARROW_COUNT else torch.int64
            found: Any = places.to(narrow).cpu().numpy()
            return found, before, after


@contextmanager
def _memory_for(what: str) -> Iterator[None]:
    """Raise WeightsError for a GPU that is full. what: is to be held or made there."""
    try:
        with memory_errors():
            yield
    except MemoryError as error:
        raise WeightsError(Reason.MEMORY, f"{what}: found no memory on the GPU") from error


def read_ahead(tensors: Iterable[Pair]) -> Iterator[Bits]:
    """Yield copies in pinned memory of the machine, each made while the one before is used.

    Raises what `require_kind` raises.
    """
    coming: list[Callable[[], Bits]] = []
    for spec, tensor in tensors:
        coming.append(_begin_copy(spec, tensor))
        if len(coming) > 1:
            yield coming.pop(0)()
    yield from (arrive() for arrive in coming)


def _begin_copy(spec: TensorSpec, tensor: torch.Tensor) -> Callable[[], Bits]:
    """Let a copy begin; return what waits for its end and returns it."""
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
    """Return a tensor's bits in its receiver's type, where it lies."""
    return to_integers(tensor.detach().to(_type_of(spec), copy=copy).contiguous())


def _type_of(spec: TensorSpec) -> torch.dtype:
    found: torch.dtype = getattr(torch, spec.dtype.name)
    return found
