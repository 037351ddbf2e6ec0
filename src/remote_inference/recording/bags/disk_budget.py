# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How much of the disk a bag may take, and what it gives up when that is reached."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from remote_inference.recording.bags.bag_error import BagError

MAX_SPLIT_BYTES = 1 << 30  # where nobody says otherwise
MAX_SPLIT_DURATION_S = 3600.0

WhenFull = Literal["stop", "drop_oldest"]


class DiskBudgetError(BagError):
    """The bag may not grow any more; the message says which bound it reached."""


@dataclass(frozen=True)
class BagLimits:
    """When a bag begins a new file, and what ends it. Zero means no bound.

    A file is at most one chunk larger or longer than its bounds.
    """

    max_split_bytes: int = 0
    max_split_duration_s: float = 0.0
    max_bytes: int = 0  # of all files together
    min_free_bytes: int = 0  # that stay free on the disk
    when_full: WhenFull = "stop"

    def ends_split(self, size: int, duration_s: float) -> bool:
        """Return whether a file of a size [bytes] is complete."""
        is_large = bool(self.max_split_bytes) and size >= self.max_split_bytes
        return is_large or (bool(self.max_split_duration_s) and duration_s >= self.max_split_duration_s)


def free_bytes(folder: Path) -> int:
    """Return the free bytes of a folder's disk."""
    return shutil.disk_usage(folder).free


class DiskBudget:
    """Makes room for what a bag is about to write."""

    def __init__(self, path: Path, limits: BagLimits, free: Callable[[Path], int] = free_bytes) -> None:
        self._path = path
        self._limits = limits
        self._free = free

    def make_room(self, used: int, growth: int, drop_oldest: Callable[[], int]) -> None:
        """Drop finished files until the bag may grow.

        used: bytes on the disk. growth: bytes about to be written. drop_oldest: drops one file and returns
        its bytes, 0 when there is none left.

        Raises DiskBudgetError when nothing can or may be dropped.
        """
        limits = self._limits
        while limits.max_bytes and used + growth > limits.max_bytes:
            used -= self._drop(drop_oldest, f"the bag has reached max_bytes, {limits.max_bytes} bytes")
        free = self._free(self._path) - growth
        while limits.min_free_bytes and free < limits.min_free_bytes:
            left = f"{max(free, 0)} bytes would stay free on the disk"
            # Counted, not measured anew: a file that somebody reads is freed when he has closed it.
            free += self._drop(drop_oldest, f"{left}, fewer than min_free_bytes, {limits.min_free_bytes}")

    def _drop(self, drop_oldest: Callable[[], int], reason: str) -> int:
        freed = drop_oldest() if self._limits.when_full == "drop_oldest" else 0
        if not freed:
            raise DiskBudgetError(f"{self._path}: {reason}")
        return freed
