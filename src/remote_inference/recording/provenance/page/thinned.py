# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A list of bounded size: when it is full, every second item goes, and every second one from then on."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Thinned(Generic[T]):
    """Items in order, evenly thinned out. weight of all items kept: at most `limit`, or one item."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._weights: list[int] = []
        self._total = 0
        self.items: list[T] = []
        self.every = 1  # one of so many is kept
        self.offered = 0

    @property
    def takes_next(self) -> bool:
        """Whether the next item offered will be kept."""
        return self.offered % self.every == 0

    def skip(self) -> None:
        """Offer an item that would not be kept."""
        self.offered += 1

    def add(self, item: T, weight: int = 1) -> None:
        """Offer an item that `takes_next` has promised to keep."""
        self.offered += 1
        self.items.append(item)
        self._weights.append(weight)
        self._total += weight
        while self._total > self._limit and len(self.items) > 1:
            del self.items[1::2], self._weights[1::2]
            self._total = sum(self._weights)
            self.every *= 2
