# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the sensors held at the last control ticks, for policies that see more than the present.

The control thread takes a sample in each tick, as a recording of demonstrations does; so the steps of an
observation are one control period apart. The newest sample is the present.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TickSample:
    """What the sensors held at a control tick.

    content: the node's, which nobody here looks into. arrivals: monotonic times of the newest content [ns] by
    topic. executed: actions executed before the tick's own.
    """

    content: Any
    arrivals: Mapping[str, int]
    executed: int = 0


class ObservationHistory:
    """A ring of the last samples of an episode. For one thread."""

    def __init__(self) -> None:
        self._sources: Collection[str] = ()
        self._since_ns = 0
        self._samples: deque[TickSample] = deque(maxlen=1)

    @property
    def observation_steps(self) -> int:
        """Control ticks that an observation shows; with 1 there is no history, and the ring is not used."""
        return self._samples.maxlen or 1

    @property
    def empty(self) -> bool:
        return not self._samples

    def use(self, observation_steps: int, sources: Collection[str], now_ns: int) -> None:
        """Begin anew for another session. sources: topics of an observation."""
        self._samples = deque(maxlen=observation_steps)
        self._sources = sources
        self.begin(now_ns)

    def begin(self, now_ns: int) -> None:
        """Forget what was seen so far, and take no sample with content from before now."""
        self._samples.clear()
        self._since_ns = now_ns

    def add(self, sample: TickSample) -> None:
        """Take the next tick's sample. One that lacks a source, or holds older content, does not count."""
        if all(sample.arrivals.get(topic, self._since_ns) > self._since_ns for topic in self._sources):
            self._samples.append(sample)

    def steps(self) -> tuple[TickSample, ...]:
        """Return `observation_steps` samples, oldest first; early in an episode its first one is repeated.

        None at all before the episode's first sample.
        """
        if not self._samples:
            return ()
        missing = self.observation_steps - len(self._samples)
        return (*[self._samples[0]] * missing, *self._samples)
