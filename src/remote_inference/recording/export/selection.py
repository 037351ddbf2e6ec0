# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which control ticks of an episode are exported, and in what rhythm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from remote_inference.core.robot.command import CommandSource
from remote_inference.recording.export.control_tick import ControlTick
from remote_inference.recording.export.format import Written


@dataclass(frozen=True)
class Selection:
    """What is left out on request.

    resample: one tick in each period of the contract's rate. drop_paused: no ticks of a paused robot.
    drop_failed: no episodes that failed, as `find_failed` judges.
    """

    resample: bool = False
    drop_paused: bool = False
    drop_failed: bool = False

    def apply(self, ticks: Iterable[ControlTick], period_ns: int, written: Written) -> Iterator[ControlTick]:
        """Yield the ticks of one episode that are exported; count the others."""
        kept = _resample(ticks, period_ns, written) if self.resample else iter(ticks)
        # Last: a pause that is left out before would be filled with the tick before it.
        return self._unpaused(kept, written) if self.drop_paused else kept

    def _unpaused(self, ticks: Iterable[ControlTick], written: Written) -> Iterator[ControlTick]:
        for tick in ticks:
            if tick.paused is False:
                yield tick
            else:
                written.leave_out("paused")


def one_per_row(ticks: Iterable[ControlTick], ticks_per_row: int) -> Iterator[ControlTick]:
    """Yield the ticks in which a row of the policy begins; where it commands nothing, one in a row's time."""
    since: ControlTick | None = None
    for tick in ticks:
        if tick.source == CommandSource.CHUNK:
            begins = tick.row_fraction == 0.0
        else:
            begins = since is None or tick.tick - since.tick >= ticks_per_row
        if begins:
            since = tick
            yield tick


def _resample(ticks: Iterable[ControlTick], period_ns: int, written: Written) -> Iterator[ControlTick]:
    """Yield one tick per period, counted from the episode's first: the newest one that began in it.

    In a period without a tick the robot held what it was commanded before: the tick before is repeated.
    """
    before: ControlTick | None = None
    begin_ns = slot = 0
    for tick in ticks:
        if before is None:
            begin_ns = tick.t_ns
        next_slot = max(slot, round((tick.t_ns - begin_ns) / period_ns))
        if before is not None and next_slot == slot:
            written.leave_out("second tick of a period")
        for missed in range(slot, next_slot):
            assert before is not None, "the first tick is in the first slot"
            yield replace(before, t_ns=begin_ns + missed * period_ns)
        before, slot = tick, next_slot
    if before is not None:
        yield replace(before, t_ns=begin_ns + slot * period_ns)
