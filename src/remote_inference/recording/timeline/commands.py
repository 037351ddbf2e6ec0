# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads from a bag what a robot was commanded, one row per control tick."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from remote_inference.core.contract.contract import Contract
from remote_inference.core.policy import Float32Array
from remote_inference.recording.bags.bag import BagReader
from remote_inference.recording.bags.bag_error import BagError
from remote_inference.recording.timeline.joint_records import EXECUTED_SUFFIX

LONGEST_WAIT_S = 1.0  # that is kept of a time without commands
Tell = Callable[[float], None]  # takes the fraction of the bag that is done


@dataclass(frozen=True)
class RecordedRows:
    """The commands of a run."""

    rows: Float32Array  # [rows, action_dim]
    held: int  # rows in which nothing was commanded, or whose message was lost: the row before again
    left_out: int  # ticks of long times without commands


def read_commands(
    bag: BagReader, namespace: str, contract: Contract, tell: Tell = lambda _: None
) -> RecordedRows:
    """Read what was commanded: by the policy, a person or the node itself.

    A tick without a command repeats the one before, which the controller held; of a longer time than
    LONGEST_WAIT_S the rest is left out. namespace: the robot's, without a slash at its end. Raises BagError
    for a damaged bag, one of other joints, and one in which nothing was commanded.
    """
    reader = _Reader(bag, contract, round(LONGEST_WAIT_S * contract.fps))
    duration_ns = max(1, bag.end_ns - bag.start_ns)
    for topic, stamp_ns, message in bag.messages([namespace + EXECUTED_SUFFIX]):
        tell((stamp_ns - bag.start_ns) / duration_ns)
        with bag.expecting(topic):
            reader.take(message)
    return reader.finish()


class _Reader:
    def __init__(self, bag: BagReader, contract: Contract, longest_wait: int) -> None:
        """longest_wait: ticks."""
        self._bag = bag
        self._names = contract.actions.names
        self._longest_wait = longest_wait
        self._rows = array("f")
        self._last: Any = None  # command
        self._last_tick = 0  # of it
        self._held = self._left_out = 0

    def take(self, message: Any) -> None:
        if not len(message.action) or getattr(message, "shadow", False):
            return
        with np.errstate(over="ignore"):  # beyond float32 is not finite, and refused
            names, action = tuple(message.joint_names), np.asarray(message.action, np.float32)
        if names != self._names or len(action) != len(names):
            raise BagError(
                f"{self._bag.path}: the executed actions are not the contract's: found {', '.join(names)}, "
                f"expected {', '.join(self._names)}"
            )
        if not np.isfinite(action).all():
            raise BagError(f"{self._bag.path}: tick {message.tick}: found {action.tolist()}, expected finite")
        tick = int(message.tick)
        if self._last is not None and tick > self._last_tick:  # not a node that has begun anew
            self._hold(tick - self._last_tick - 1)
        self._rows.extend(action.tolist())
        self._last, self._last_tick = action.tolist(), tick

    def _hold(self, ticks: int) -> None:
        kept = min(ticks, self._longest_wait)
        self._held += kept
        self._left_out += ticks - kept
        for _ in range(kept):
            self._rows.extend(self._last)

    def finish(self) -> RecordedRows:
        if not self._rows:
            raise BagError(f"{self._bag.path}: found no executed action, expected commands to repeat")
        rows = np.array(self._rows, np.float32).reshape(-1, len(self._names))
        return RecordedRows(rows, self._held, self._left_out)
