# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Random sequences of queue operations, played on our ActionQueue and on another queue side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from hypothesis import strategies as st

from remote_inference.robot.queue.action_queue import ActionQueue, DelayPolicy, MergeMode
from support.builders import make_source

ACTION_DIM = 3
# Minus zero, a signalling NaN, the smallest denormal, minus infinity.
FRAGILE_BITS = np.array([0x80000000, 0x7F800001, 0x00000001, 0xFF800000], np.uint32)


class OtherQueue(Protocol):
    """A queue under LeRobot's rule: `rtc` replaces and drops the delay, without it a chunk is appended."""

    def __len__(self) -> int: ...

    def get(self) -> np.ndarray | None: ...

    def clear(self) -> None: ...

    def left_over(self) -> np.ndarray | None: ...

    def processed_left_over(self) -> np.ndarray | None: ...

    def merge(self, original: np.ndarray, processed: np.ndarray, delay: int, *, rtc: bool) -> None: ...


@dataclass(frozen=True)
class Merge:
    mode: MergeMode
    length: int
    delay: int


@dataclass(frozen=True)
class Get:
    times: int


class Clear:
    def __repr__(self) -> str:
        return "Clear()"


Operation = Merge | Get | Clear

merges = st.builds(Merge, st.sampled_from(MergeMode), st.integers(0, 9), st.integers(-2, 12))
# Get stands twice: sequences without much clearing reach more states.
operations = st.lists(
    st.one_of(
        merges, st.builds(Get, st.integers(1, 12)), st.builds(Get, st.integers(1, 3)), st.builds(Clear)
    ),
    max_size=40,
)


def any_rows(length: int, seed: Sequence[int]) -> np.ndarray:
    """Return `[length, ACTION_DIM]` float32 of random bits, with one value that arithmetic would alter."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 2**32, (length, ACTION_DIM), dtype=np.uint32)
    bits[:, -1] = random.choice(FRAGILE_BITS, length)
    return bits.view(np.float32)


def content(rows: np.ndarray | None) -> bytes:
    return b"" if rows is None else rows.tobytes()


def assert_equal_after_each(sequence: Sequence[Operation], theirs: OtherQueue) -> None:
    """Play a sequence on both queues and compare, after each operation, whatever can be read."""
    ours = ActionQueue(DelayPolicy.LATENCY)
    for number, operation in enumerate(sequence):
        if isinstance(operation, Get):
            for _ in range(operation.times):
                action, expected = ours.get(), theirs.get()
                assert (action is None) == (expected is None)
                assert content(None if action is None else action.robot) == content(expected)
        elif isinstance(operation, Clear):
            ours.clear()
            theirs.clear()
        else:
            model, robot = any_rows(operation.length, (number, 0)), any_rows(operation.length, (number, 1))
            dropped = ours.merge(
                make_source(number),
                model,
                robot,
                operation.mode,
                latency_steps=operation.delay,
                executed_before=ours.executed,
            )
            replaces = operation.mode is MergeMode.REPLACE
            theirs.merge(model, robot, operation.delay, rtc=replaces)
            assert dropped == (operation.length - len(theirs) if replaces else 0)
        assert len(ours) == len(theirs)
        assert content(ours.left_over()) == content(theirs.left_over())
        assert content(ours.left_over_robot()) == content(theirs.processed_left_over())
