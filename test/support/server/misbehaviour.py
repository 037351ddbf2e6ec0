# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What policies do wrong, as answers to a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from remote_inference.base.policy import PolicyError, PolicyObservation
from support.builders import CHUNK_SIZE, ShiftProcessors
from support.server.bench import Bench


class PanicError(BaseException):
    """As a library in Rust raises one, which is no Exception."""


class SlowProcessors(ShiftProcessors):
    """Take their time to prepare a request."""

    def __init__(self, bench: Bench, duration_ns: int) -> None:
        super().__init__()
        self._bench = bench
        self._duration_ns = duration_ns

    def pre(self, observation: PolicyObservation) -> Any:
        self._bench.now_ns += self._duration_ns
        return super().pre(observation)


def nan_rows(batch: Sequence[Any]) -> list[np.ndarray]:
    return [np.full((CHUNK_SIZE, 2), np.nan, np.float32) for _ in batch]


def rows_too_large_for_the_wire(batch: Sequence[Any]) -> list[np.ndarray]:
    return [np.full((CHUNK_SIZE, 2), 1e39) for _ in batch]


def short_rows(batch: Sequence[Any]) -> list[np.ndarray]:
    return [np.zeros((3, 2), np.float32) for _ in batch]


def out_of_memory(batch: Sequence[Any]) -> list[np.ndarray]:
    raise MemoryError("no room on the device")


def too_few(batch: Sequence[Any]) -> list[np.ndarray]:
    return []


def no_arrays(batch: Sequence[Any]) -> list[Any]:
    return [None for _ in batch]


def refuse_large_states(bench: Bench) -> None:
    """Make every batch with a large state fail: the robot's fault, not the policy's."""
    healthy = bench.policy.answer

    def answer(batch: Sequence[Any]) -> Any:
        if any(abs(state).max() > 10 for state in batch):
            raise PolicyError("state is out of range")
        return healthy(batch)

    bench.policy.answer = answer
