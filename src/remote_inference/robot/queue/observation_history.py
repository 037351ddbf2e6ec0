# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the sensors held at the last control ticks, for policies that see more than the present.

The control thread takes a sample in each tick. The newest one is the present. The steps of an observation are
a row's time apart, as in a recording of demonstrations: one tick, or several where control is faster than the
policy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from remote_inference.robot.command import Float64Array


@dataclass(frozen=True)
class TickSample:
    """What the sensors held at a control tick.

    content: the node's, which nobody here looks into; of a set of `FittingSets`, by topic. arrivals:
    monotonic times of the newest content [ns] by topic. measured: positions `[action_dim]`, None when they
    are unknown. stamps: of their messages. tick_ns: the tick's time [monotonic ns], None where it is not
    known.
    """

    content: Any
    arrivals: Mapping[str, int]
    tick_ns: int | None = None
    measured: Float64Array | None = None
    stamps: Mapping[str, int] = field(default_factory=dict)


class ObservationHistory:
    """A ring of the last samples of an episode. For one thread."""

    def __init__(self, period_ns: int, ticks_per_row: int = 1) -> None:
        """period_ns: between two ticks. ticks_per_row: between two steps of an observation."""
        self._gap_ns = period_ns * 3 // 2
        self._ticks_per_row = ticks_per_row
        self._sources: Collection[str] = ()
        self._since_ns = 0
        self._samples: deque[TickSample] = deque(maxlen=1)
        self.observation_steps = 1
        """Steps that an observation shows; with 1 the ring is used for sources that have to fit together."""

    def use(self, observation_steps: int, sources: Collection[str], now_ns: int) -> None:
        """Begin anew for another session. sources: topics of an observation."""
        self.observation_steps = observation_steps
        self._samples = deque(maxlen=1 + (observation_steps - 1) * self._ticks_per_row)
        self._sources = sources
        self.begin(now_ns)

    def begin(self, now_ns: int) -> None:
        """Forget what was seen so far, and take no sample with content from before now."""
        self._samples.clear()
        self._since_ns = now_ns

    def add(self, sample: TickSample) -> None:
        """Append the next tick's sample. One that lacks a source, or holds older content, does not count.

        After ticks that were missed the history begins anew: its steps would seem a row apart.
        """
        if all(sample.arrivals.get(topic, self._since_ns) > self._since_ns for topic in self._sources):
            last_ns = self._samples[-1].tick_ns if self._samples else None
            if last_ns is not None and sample.tick_ns is not None and sample.tick_ns - last_ns > self._gap_ns:
                self._samples.clear()
            self._samples.append(sample)

    def steps(self) -> tuple[TickSample, ...]:
        """Return `observation_steps` samples, oldest first; early in an episode its first one is repeated.

        None at all before the episode's first sample.
        """
        if not self._samples:
            return ()
        shown = list(self._samples)[:: -self._ticks_per_row][::-1]
        return (*[shown[0]] * (self.observation_steps - len(shown)), *shown)
