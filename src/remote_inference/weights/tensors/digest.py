# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The digest of a state of weights: 64 bits, a sum over all entries, so that it follows from the one before.

Each entry adds a number made of its place and its bits. An update's digest costs what changed, not what the
model holds, on both sides. It tells errors; it does not tell who has sent the weights, which is the
transport's task.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.weights.tensors.coordinates import Places
from remote_inference.weights.tensors.dtypes import Bits
from remote_inference.weights.tensors.tensors import State, Table, TensorSpec

MODULUS = 1 << 64
DIGITS = 16
_BLOCK = 1 << 16  # entries of a step: the temporary arrays stay in a processor's cache
# Odd numbers without a pattern; each multiplication and shift carries a change on to the other bits.
_PLACE = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def state_digest(state: State, table: Table) -> int:
    """Return the digest of a whole state."""
    return sum(entries_digest(spec, None, state[spec.name]) for spec in table) % MODULUS


def entries_digest(spec: TensorSpec, places: Places | None, bits: Bits) -> int:
    """Return what entries of a tensor add to the digest. places: of the bits; None: the whole tensor."""
    seed, total = _seed(spec), 0
    for begin in range(0, bits.size, _BLOCK):
        block = bits[begin : begin + _BLOCK]
        where: NDArray[Any] = (
            np.arange(begin, begin + block.size, dtype=np.uint64)
            if places is None
            else places[begin : begin + _BLOCK].astype(np.uint64)
        )
        total += int(_mix(where, block, seed).sum(dtype=np.uint64))
    return total % MODULUS


def show_digest(digest: int) -> str:
    return f"{digest:0{DIGITS}x}"


def _mix(places: NDArray[np.uint64], bits: Bits, seed: np.uint64) -> NDArray[np.uint64]:
    mixed: NDArray[np.uint64] = places * _PLACE + seed
    _spread(mixed, _FIRST)
    mixed ^= bits
    _spread(mixed, _SECOND)
    _spread(mixed, _FIRST)
    return mixed


def _spread(values: NDArray[np.uint64], factor: np.uint64) -> None:
    values ^= values >> np.uint64(29)
    values *= factor


def _seed(spec: TensorSpec) -> np.uint64:
    named = f"{spec.name}\0{spec.dtype.name}\0{spec.shape}".encode()
    seed: np.uint64 = np.uint64(int.from_bytes(hashlib.sha256(named).digest()[:8], "little"))
    return seed
