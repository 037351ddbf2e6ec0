# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Counts the messages that did not reach the recorder, by the numbers that their publisher gave them."""

from __future__ import annotations

from collections import Counter

SEQUENCES = 1 << 32  # MCAP keeps 32 bits of a number


def count_missing(before: int, after: int) -> int:
    """Return how many messages lie between two of one publisher. 0: unknown, or the publisher began anew."""
    step = (after - before) % SEQUENCES
    return step - 1 if before and after and 0 < step < SEQUENCES // 2 else 0


class LostMessages:
    """Takes the numbers of the messages that arrive."""

    def __init__(self) -> None:
        self.before: Counter[str] = Counter()  # lost on the way to the recorder, by topic
        self.uncounted: set[str] = set()  # topics with several publishers, whose numbers interleave
        self._last: dict[str, int] = {}

    def add(self, topic: str, sequence: int) -> None:
        """Take the number of the next message of a topic, 0 where the middleware gives none."""
        if topic not in self.uncounted and (missing := count_missing(self._last.get(topic, 0), sequence)):
            self.before[topic] += missing
        self._last[topic] = sequence

    def set_publishers(self, topic: str, publishers: int) -> None:
        """Say how many publishers a topic has."""
        if publishers > 1 and topic not in self.uncounted:
            self.uncounted.add(topic)
            del self.before[topic]  # numbers of two that interleave, taken for one's
