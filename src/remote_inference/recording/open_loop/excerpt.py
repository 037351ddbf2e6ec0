# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The begin of a comparison, to be drawn: what was executed, and the chunks that were predicted for it."""

from __future__ import annotations

from collections.abc import Sequence

from remote_inference.recording.open_loop.alignment import Laid
from remote_inference.recording.timeline.joint_records import FloatArray

LENGTH_S = 15.0


class Excerpt:
    """Keeps the first LENGTH_S from the first executed action on."""

    def __init__(self, names: Sequence[str], units: Sequence[str], period_s: float) -> None:
        """names, units: of the actions. period_s: of the policy's rows."""
        self.names = tuple(names)
        self.units = tuple(units)
        self.period_s = period_s
        self.executed: dict[int, FloatArray] = {}  # action by tick
        self.chunks: list[tuple[int, FloatArray]] = []  # tick of row 0, and the rows
        self.first: int | None = None  # tick

    def add(self, laid: Laid, rows: FloatArray) -> None:
        """Take a chunk's rows and what was executed in their place."""
        if laid.begin is None or not laid.places:
            return
        if self.first is None:
            self.first = laid.begin + laid.places[0]
        end = self.first + round(LENGTH_S / self.period_s)
        if not self.first <= laid.begin + laid.places[0] < end:
            return
        self.chunks.append((laid.begin, rows))
        for place, action in zip(laid.places, laid.actions, strict=True):
            if laid.begin + place < end:
                self.executed[laid.begin + place] = action
