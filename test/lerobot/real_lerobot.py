# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot's own queue, latency tracker and request loop. Where LeRobot is missing, who imports this skips."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path

import numpy as np
import pytest

# Not "lerobot": this folder itself can be imported by that name.
pytest.importorskip("lerobot.policies.rtc", reason="LeRobot is not installed here: make test-lerobot")

import lerobot
import torch
from lerobot.policies.rtc import ActionQueue, LatencyTracker, RTCConfig, RTCProcessor

__all__ = [
    "ActionQueue",
    "LatencyTracker",
    "RTCConfig",
    "RTCProcessor",
    "RealQueue",
    "lerobot",
    "rtc",
    "torch",
]


def _import_request_loop() -> types.ModuleType:
    """Import the loop without its packages' `__init__`, which wants the dataset extra; the loop does not."""
    rollout = Path(lerobot.__file__).parent / "rollout"
    for folder in (rollout, rollout / "inference"):
        name = ".".join(("lerobot", *folder.relative_to(rollout.parent).parts))
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    return importlib.import_module("lerobot.rollout.inference.rtc")


rtc = _import_request_loop()


class RealQueue:
    """LeRobot's ActionQueue; each merge chooses the mode, which LeRobot reads from its configuration."""

    def __init__(self, index_before: int | None = None) -> None:
        """Take the index at the request; LeRobot warns when it contradicts the delay, and uses the delay."""
        self._config = RTCConfig()
        self._queue = ActionQueue(self._config)
        self._index_before = index_before

    def __len__(self) -> int:
        size = self._queue.qsize()
        assert self._queue.empty() == (size == 0)
        return size

    def get(self) -> np.ndarray | None:
        return _rows(self._queue.get())

    def clear(self) -> None:
        self._queue.clear()

    def left_over(self) -> np.ndarray | None:
        return _rows(self._queue.get_left_over())

    def processed_left_over(self) -> np.ndarray | None:
        return _rows(self._queue.get_processed_left_over())

    def merge(self, original: np.ndarray, processed: np.ndarray, delay: int, *, rtc: bool) -> None:
        self._config.enabled = rtc
        rows = torch.from_numpy(original), torch.from_numpy(processed)
        self._queue.merge(*rows, delay, self._index_before)


def _rows(tensor: torch.Tensor | None) -> np.ndarray | None:
    return None if tensor is None else tensor.numpy()
