# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Says once which sources of observations fell silent, and which are too far apart for a request."""

from __future__ import annotations

from collections.abc import Iterable

from remote_inference.base.repeats import Changes
from remote_inference.robot.requests.request_cycle import RequestCycle
from remote_inference.robot.safety.effects import Effect, Inform, Warn


class SourceWatch:
    """What keeps requests waiting. For one thread."""

    def __init__(self, limit_s: float) -> None:
        """limit_s: age from which a source is stale [s]."""
        self.apart = ""  # which sources are too far apart for a request, in words
        self._limit_s = limit_s
        self._silent: set[str] = set()  # until they deliver again ...
        self._silences = Changes()  # ... as it was said

    def note(self, silent: Iterable[str], stale: set[str]) -> None:
        """Note the sources that fell silent just now, and all that are stale."""
        self._silent = (self._silent & stale).union(silent)

    def check(self, cycle: RequestCycle, now_ns: int, *, is_open: bool) -> list[Effect]:
        """Return what is to be said. is_open: a session; until then nobody knows which sources it wants."""
        effects: list[Effect] = []
        before, self.apart = self.apart, cycle.sets.find_problem(now_ns) if is_open else ""
        if self.apart and not before:
            found = f"no set of messages fits for {self._limit_s:g} s, requests wait: {self.apart}"
            effects.append(Warn(found))
        for topic in sorted(cycle.sources):
            if self._silences.is_due(topic, holds=topic in self._silent, now_s=now_ns / 1e9):
                silence = f"{topic}: nothing new for {self._limit_s:g} s, requests wait for it"
                news = Inform(f"{topic}: delivers again")
                effects.append(Warn(silence, repeats=False) if topic in self._silent else news)
        return effects
