# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""With `delay_policy: latency` the queue follows the rule of LeRobot's ActionQueue, written down here.

`make test-lerobot` compares with LeRobot itself.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given

from support.robot.queue_operations import Operation, assert_equal_after_each, operations


class LeRobotQueue:
    """One array per space and a read index; a merge resets the index."""

    def __init__(self) -> None:
        self.original: np.ndarray | None = None
        self.processed: np.ndarray | None = None
        self.index = 0

    def __len__(self) -> int:
        return 0 if self.processed is None else len(self.processed) - self.index

    def get(self) -> np.ndarray | None:
        if self.processed is None or self.index >= len(self.processed):
            return None
        self.index += 1
        return self.processed[self.index - 1]

    def clear(self) -> None:
        self.original = self.processed = None
        self.index = 0

    def left_over(self) -> np.ndarray | None:
        return None if self.original is None else self.original[self.index :]

    def processed_left_over(self) -> np.ndarray | None:
        return None if self.processed is None else self.processed[self.index :]

    def merge(self, original: np.ndarray, processed: np.ndarray, delay: int, *, rtc: bool) -> None:
        if rtc:
            delay = max(0, min(delay, len(original)))
            self.original, self.processed = original[delay:].copy(), processed[delay:].copy()
        elif self.original is None or self.processed is None:
            self.original, self.processed = original.copy(), processed.copy()
        else:
            self.original = np.concatenate([self.original[self.index :], original])
            self.processed = np.concatenate([self.processed[self.index :], processed])
        self.index = 0


@given(operations)
def test_lengths_and_bytes_equal_on_every_sequence_of_operations(sequence: list[Operation]):
    assert_equal_after_each(sequence, LeRobotQueue())
