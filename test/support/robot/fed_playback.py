# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A playback by itself, which a test feeds with rows and measurements, tick by tick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.queue.action_queue import MergeMode
from support.builders import make_source
from support.robot.playbacks import make_playback, make_queue


class FedPlayback:
    """Resumed at time 0; nothing is measured yet."""

    def __init__(self, contract: Contract, fallback: str = "hold", **options: Any) -> None:
        """options: of `make_playback`."""
        self.contract = contract
        self.period_ns = round(contract.period_s * 1e9)
        self.queue = make_queue(contract)
        self.playback = make_playback(contract, self.queue, fallback, **options)
        self.guard = self.playback.rules.guard
        self.now_ns = 0

    def measure(self, positions: ArrayLike) -> None:
        """Measure `[action_dim]` now."""
        self.playback.control.change(measured=np.array(positions), measured_ns=self.now_ns)

    def append(self, rows: Sequence[ArrayLike]) -> None:
        """Let a chunk of rows join the queue now, behind what is there."""
        self._merge(rows, MergeMode.APPEND)

    def replace(self, rows: Sequence[ArrayLike] | np.ndarray) -> None:
        """Let a chunk of rows replace the queue now."""
        self._merge(rows, MergeMode.REPLACE)

    def _merge(self, rows: Sequence[ArrayLike] | np.ndarray, mode: MergeMode) -> None:
        table = np.array(rows, np.float32)
        source = make_source(capture_ns=self.now_ns)
        self.queue.merge(source, table, table, mode, latency_steps=0, executed_before=0)

    def tick(self) -> Tick:
        """Return what the present control tick commands; the time of the next one begins."""
        tick = self.playback.tick(self.now_ns)
        self.now_ns += self.period_ns
        return tick

    def reached(self, tick: Tick) -> list[CommandSink]:
        """Return the controllers on whose topics a tick publishes."""
        return [
            sink
            for sink in self.contract.commands
            if tick.command is not None and tick.reaches(self.contract.kind_of(sink), sink.destination)
        ]
