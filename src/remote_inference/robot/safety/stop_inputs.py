# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract's stop inputs: what stops the robot, latched until an operator clears it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from remote_inference.base.contract.operator_inputs import StopInput
from remote_inference.robot.step_lock import StepLock


@dataclass
class _Received:
    """What one input sent last."""

    source: StopInput
    at_ns: int | None = None  # None: never received
    stops: bool = False

    def is_silent(self, now_ns: int) -> bool:
        """Return whether this input was heard, and then too long not."""
        if self.at_ns is None or self.source.silent_s is None:
            return False
        return (now_ns - self.at_ns) / 1e9 > self.source.silent_s

    def find_reason(self, now_ns: int) -> str:
        """Return why this input stops the robot now, or an empty string; one never heard does not."""
        if self.stops:
            return f"{self.source.topic} says {str(self.source.stop_when).lower()}"
        if not self.is_silent(now_ns):
            return ""
        return f"{self.source.topic} is silent, expected a message every {self.source.silent_s:g} s"


class StopInputs:
    """The inputs and the latch.

    Safe for three threads: one receives messages, the control thread checks in each tick, one clears. No
    order of the three loses a stop. Times are monotonic [ns].
    """

    def __init__(self, stops: Mapping[str, StopInput], lock: StepLock | None = None) -> None:
        self._heard = {name: _Received(source) for name, source in stops.items()}
        self._lock = lock or StepLock()
        self._latched = ""
        self._count = 0

    @property
    def heard(self) -> int:
        """How many stops the inputs have said since the start, also while another was latched."""
        with self._lock:
            return self._count

    @property
    def latched(self) -> str:
        """What stopped the robot, and why; empty when nothing did since the last clear."""
        with self._lock:
            return self._latched

    @property
    def never_received(self) -> tuple[str, ...]:
        """Names of the inputs of which nothing was ever heard."""
        with self._lock:
            return tuple(name for name, heard in self._heard.items() if heard.at_ns is None)

    def receive(self, name: str, *, stops: bool, now_ns: int) -> None:
        """Handle a message of an input. stops: whether it stops the robot."""
        with self._lock:
            # A silence that no tick has checked yet must not go unnoticed.
            self._latch(now_ns)
            heard = self._heard[name]
            self._count += stops or heard.is_silent(now_ns)
            heard.at_ns, heard.stops = now_ns, stops
            self._latch(now_ns)

    def latch(self, reason: str) -> None:
        """Stop the robot for a reason of this node's own, unless it is stopped already."""
        with self._lock:
            self._count += not self._latched  # an order that was given before releases it no more
            self._latched = self._latched or reason

    def check(self, now_ns: int) -> str:
        """Latch the first input that stops the robot; return what is latched, or an empty string."""
        with self._lock:
            self._latch(now_ns)
            return self._latched

    def clear(self, stop: str, now_ns: int, heard: int | None = None) -> str:
        """Release a latched stop that was carried out; return why it cannot be released, or an empty string.

        stop: what was latched, "" for nothing. Another one, which came meanwhile, stays: it has
        paused nobody yet. heard: stops when this was called for; None: it is called now.
        """
        with self._lock:
            if problem := self._find_reason(now_ns):
                return f"stop input {problem}"
            if heard is not None and self._count > heard:
                return "the robot was stopped meanwhile"
            if self._latched != stop:
                return f"stopped meanwhile by {self._latched}"
            self._latched = ""
            return ""

    def find_obstacle(self, now_ns: int) -> str:
        """Return why the robot must not move, or an empty string: a latched stop, or an input never heard."""
        with self._lock:
            latched, never_received = self.check(now_ns), self.never_received
        if latched:
            return f"stopped by {latched}; clear_stop is expected first"
        sources = {name: self._heard[name].source for name in never_received}
        if not sources:
            return ""
        named = ", ".join(f"{name} ({source.topic}, {source.type})" for name, source in sources.items())
        return f"nothing was ever heard of stop input {named}; expected its first message"

    def _latch(self, now_ns: int) -> None:
        if not self._latched:
            self._latched = self._find_reason(now_ns)

    def _find_reason(self, now_ns: int) -> str:
        reasons = ((name, heard.find_reason(now_ns)) for name, heard in self._heard.items())
        return next((f"{name}: {reason}" for name, reason in reasons if reason), "")
