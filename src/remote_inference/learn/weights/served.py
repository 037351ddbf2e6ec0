# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The tensors that a receiver serves, wherever they lie: a kind of memory is one class and one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from remote_inference.base.documents.registry import Registry
from remote_inference.learn.weights.changes import Change
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.tensors import (
    MODULUS,
    Bits,
    Places,
    Table,
    Tensors,
    entries_digest,
    memory_of,
    span_of,
    state_digest,
    view_one,
)


class ServedTensor(Protocol):
    """One tensor that is served; by default one in the machine's own memory."""

    block: int  # values that are exchanged in one go

    def read(self, places: Places | None) -> Bits:
        """Return its bits at these places, or all, in host memory, to be read alone. Raises MemoryError."""

    def stage(self, change: Change) -> Change:
        """Return a change of this tensor that lies where the tensor does. Raises MemoryError."""
        return change

    def swap(self, change: Change, begin: int) -> None:
        """Swap a block of a staged change's bits, from `begin` on, with the tensor's; done again: back.

        Takes memory for a block; has changed nothing when that runs out, and it raises MemoryError.
        """

    def settle(self) -> None:
        """Return when what was exchanged is what everybody reads."""
        return


class HostTensor(ServedTensor):
    """A tensor in the machine's own memory. A write there is done when it returns."""

    block = 1 << 18

    def __init__(self, name: str, tensor: Any) -> None:
        """Raise WeightsError for memory that is read-only or not contiguous."""
        self._bits = view_one(name, tensor)
        if not self._bits.flags.writeable:
            raise WeightsError(Reason.ARCHITECTURE, f"{name}: its memory is read-only, expected it not to be")

    def read(self, places: Places | None) -> Bits:
        return self._bits if places is None else self._bits[places]

    def swap(self, change: Change, begin: int) -> None:
        new, where = change.block(begin, self.block)
        old = self._bits[where].copy()
        self._bits[where] = new
        new[:] = old


MEMORIES = Registry[Callable[[str, Any], ServedTensor]]("memory")  # by torch's word for the device
MEMORIES.add("cpu", HostTensor)
MEMORIES.add("cuda", f"{__package__}.device:DeviceTensor", needs=("torch",))


class ServedTensors:
    """All tensors of a policy, changed in place by the thread that owns them."""

    def __init__(self, tensors: Tensors, table: Table) -> None:
        """Serve a policy's tensors. Raises WeightsError for one whose memory cannot be changed so."""
        self._table = table
        self._served = {spec.name: _serve(spec.name, tensors[spec.name]) for spec in table}
        self._tied = _find_tied(tensors)

    def digest(self) -> int:
        """Return the digest of the state, see `tensors.state_digest`."""
        return state_digest((spec, self._served[spec.name].read(None)) for spec in self._table)

    def digest_after(self, changes: Sequence[Change], digest: int) -> int:
        """Return the digest that a state of this one has after unstaged changes. Raises MemoryError."""
        for change in changes:
            before = self._served[change.spec.name].read(change.places)
            digest += entries_digest(change.spec, change.places, change.bits)
            digest -= entries_digest(change.spec, change.places, before)
        return digest % MODULUS

    def require_equal_where_tied(self, changes: Sequence[Change]) -> None:
        """Raise WeightsError when two names of one memory would get different bits: it cannot hold both."""
        by_name = {change.spec.name: change for change in changes}
        for name, other in self._tied:
            if not _are_alike(by_name.get(name), by_name.get(other)):
                text = f"{name} and {other} are one tensor: found different values, expected equal ones"
                raise WeightsError(Reason.DIGEST, text)

    def stage(self, changes: Sequence[Change]) -> Sequence[Change]:
        """Return the changes ready to be exchanged. For any thread. Raises MemoryError."""
        return [self._served[change.spec.name].stage(change) for change in changes]

    def exchange(self, changes: Sequence[Change]) -> None:
        """Swap the bits of staged changes and tensors.

        The changes are their own inverse then, to be exchanged backwards. Two names of one memory are fine,
        in the inverse order. When memory runs out, all is as it was, and MemoryError is raised.
        """
        swapped: list[Callable[[], None]] = []
        try:
            for change in changes:
                tensor = self._served[change.spec.name]
                for begin in range(0, len(change.bits), tensor.block):
                    tensor.swap(change, begin)
                    swapped.append(partial(tensor.swap, change, begin))
        except MemoryError:
            _swap_back(swapped)
            raise
        finally:
            for change in changes:
                self._served[change.spec.name].settle()


def _swap_back(swapped: Sequence[Callable[[], None]]) -> None:
    """Undo swaps. Raises RuntimeError when that fails, too: a mixture of versions must not be served."""
    try:
        for swap in reversed(swapped):  # each has had memory for its block a moment ago
            swap()
    except MemoryError as error:
        text = "weights: found no memory to take an update back whose exchange failed half-way"
        raise RuntimeError(text) from error


def _find_tied(tensors: Tensors) -> Sequence[tuple[str, str]]:
    """Return pairs of names of one memory. Raises WeightsError for tensors that share a part of theirs."""
    spans = sorted((*span_of(tensor), name) for name, tensor in tensors.items())
    tied = []
    for (device, begin, end, name), (other_device, other_begin, other_end, other) in pairwise(spans):
        if device == other_device and other_begin < min(end, other_end):
            if (begin, end) != (other_begin, other_end):
                text = f"{name}, {other}: they share a part of their memory, expected all of it or none"
                raise WeightsError(Reason.ARCHITECTURE, text)
            tied.append((name, other))
    return tied


def _are_alike(change: Change | None, other: Change | None) -> bool:
    """Return whether two changes, None of them staged, do the same to the memory they are of."""
    if change is None or other is None:
        return change is other
    # Places of None are equal to None alone.
    return np.array_equal(change.places, other.places) and np.array_equal(change.bits, other.bits)


def _serve(name: str, tensor: Any) -> ServedTensor:
    memory = memory_of(tensor)
    if memory not in MEMORIES.names:
        expected = " or ".join(MEMORIES.names)
        raise WeightsError(Reason.ARCHITECTURE, f"{name}: found it on {memory}, expected it on {expected}")
    return MEMORIES.get(memory)(name, tensor)
