# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tensors in the memory of a GPU: served ones that are changed there, and what moves bits there and back.

Whatever is prepared runs on a stream of its own, beside the policy's. The code is the same for tensors of
torch in the machine's own memory, which have no streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch

from remote_inference.weights.changes.changes import Change
from remote_inference.weights.reasons import Reason, WeightsError
from remote_inference.weights.tensors.coordinates import Places
from remote_inference.weights.tensors.dtypes import Bits

_BLOCK = 1 << 22  # values that are exchanged in one go
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by width in bytes


class SideStream:
    """Work on a device beside that of a thread's own stream; without a GPU the thread does it at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def enter(self) -> AbstractContextManager[Any]:
        """Return a context in which work goes to this stream."""
        return torch.cuda.stream(self._stream) if self._stream else nullcontext()

    def follow(self) -> None:
        """Begin no more work before that which the calling thread has given its own stream is done."""
        if self._stream:
            self._stream.wait_stream(torch.cuda.current_stream(self._device))

    def mark(self) -> Callable[[], None]:
        """Return what returns when all work that this stream has by now is done."""
        if self._stream is None:
            return lambda: None
        wait: Callable[[], None] = self._stream.record_event().synchronize
        return wait


@cache
def side_stream(device: torch.device) -> SideStream:
    """Return the one of a device."""
    return SideStream(device)


@contextmanager
def memory_errors() -> Iterator[None]:
    """Raise MemoryError for a GPU that is full, as for the machine's own memory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MemoryError(str(error)) from error


def to_integers(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor's bits `[count]` as integers of its width, in the same memory."""
    return tensor.detach().reshape(-1).view(INTEGERS[tensor.element_size()])


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
    """Lies in a GPU's memory. See ServedTensor."""

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        """Take a tensor. Raises WeightsError for memory that is not contiguous."""
        if not tensor.is_contiguous():
            raise WeightsError(
                Reason.ARCHITECTURE, f"{name}: its memory is not contiguous, expected it to be"
            )
        self._flat = to_integers(tensor)
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

    def swaps(self, change: Change) -> Iterator[Callable[[], None]]:
        for begin in range(0, change.bits.numel(), _BLOCK):
            yield partial(self._swap, change, begin)

    def _swap(self, change: Change, begin: int) -> None:
        new, where = change.block(begin, _BLOCK)
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
