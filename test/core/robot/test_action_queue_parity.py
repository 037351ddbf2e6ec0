# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""With `delay_policy: latency` the queue follows the rule of LeRobot's ActionQueue, written down here."""

from __future__ import annotations

import numpy as np
from builders import make_rows, make_source
from hypothesis import given
from hypothesis import strategies as st

from remote_inference.core.robot.action_queue import ActionQueue, DelayPolicy, MergeMode


class LeRobotQueue:
    """One array per space and a read index; a merge resets the index."""

    def __init__(self) -> None:
        self.original: np.ndarray | None = None
        self.processed: np.ndarray | None = None
        self.index = 0

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


merges = st.tuples(st.sampled_from(MergeMode), st.integers(1, 9), st.integers(0, 12))
operations = st.lists(st.one_of(merges, st.sampled_from(["get", "clear"])), max_size=40)


def content(rows: np.ndarray | None) -> bytes:
    return b"" if rows is None else rows.tobytes()


@given(operations)
def test_lengths_and_bytes_equal_on_every_sequence_of_operations(sequence: list):
    ours, theirs = ActionQueue(DelayPolicy.LATENCY), LeRobotQueue()
    for number, operation in enumerate(sequence):
        if operation == "get":
            action, expected = ours.get(), theirs.get()
            assert content(None if action is None else action.robot) == content(expected)
        elif operation == "clear":
            ours.clear()
            theirs.clear()
        else:
            mode, length, delay = operation
            model = make_rows(length, first=float(number))
            ours.merge(
                make_source(number),
                model,
                model * 2,
                mode,
                latency_steps=delay,
                executed_before=ours.executed,
            )
            theirs.merge(model, model * 2, delay, rtc=mode is MergeMode.REPLACE)
        assert content(ours.left_over()) == content(theirs.left_over())
        assert content(ours.left_over_robot()) == content(theirs.processed_left_over())
