# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Faults injected at run time: what a robot receives or sends is lost, late or held back.

To the engine an injected fault looks like a real one: it passes through the same guard and the same states.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any

MAX_DURATION_S = 60.0
MAX_DELAY_S = 5.0
MAX_HELD = 1000  # items of one target that wait at a time, 200 a second for MAX_DELAY_S; others are lost


class Target(Enum):
    """What a fault disturbs."""

    CHUNKS = "chunks"
    OBSERVATIONS = "observations"
    SENSORS = "sensors"


class Kind(Enum):
    """What a fault does to its target."""

    DROP = "drop"
    DELAY = "delay"
    FREEZE = "freeze"


@dataclass(frozen=True)
class Fault:
    """One fault to inject. Raises ValueError with the field, what was found and expected."""

    target: Target
    kind: Kind
    duration_s: float
    delay_s: float = 0.0  # of DELAY alone
    probability: float = 0.0  # of DROP alone

    def __post_init__(self) -> None:
        _check("duration_s", self.duration_s, MAX_DURATION_S, is_used=True)
        _check("delay_s", self.delay_s, MAX_DELAY_S, is_used=self.kind is Kind.DELAY)
        _check("probability", self.probability, 1.0, is_used=self.kind is Kind.DROP)

    def __str__(self) -> str:
        details = {
            Kind.DROP: f", probability {self.probability:g}",
            Kind.DELAY: f", by {self.delay_s:g} s",
            Kind.FREEZE: "",
        }
        return f"{self.kind.value} {self.target.value} for {self.duration_s:g} s{details[self.kind]}"


def parse_fault(target: str, kind: str, duration_s: float, delay_s: float, probability: float) -> Fault:
    """Return the fault of a request. Raises ValueError with the field, what was found and expected."""
    return Fault(
        _member(Target, "target", target), _member(Kind, "kind", kind), duration_s, delay_s, probability
    )


def _member(kind: Any, field: str, value: str) -> Any:
    values = [member.value for member in kind]
    if value not in values:
        raise ValueError(f"{field}: found {value[:40]!r}, expected {', '.join(values[:-1])} or {values[-1]}")
    return kind(value)


def _check(field: str, value: float, high: float, *, is_used: bool) -> None:
    if is_used and not (math.isfinite(value) and 0.0 < value <= high):
        raise ValueError(f"{field}: found {value:g}, expected above 0 to {high:g}")
    if not is_used and value != 0.0:
        raise ValueError(f"{field}: found {value:g}, expected 0 for this kind of fault")


class FaultInjection:
    """One fault at a time, between a robot's node and its engine. Instants are monotonic [ns]."""

    def __init__(self, seed: int = 0) -> None:
        """seed: of what is dropped by probability."""
        self._random = random.Random(seed)
        self.fault: Fault | None = None  # in progress
        self._end_ns = 0
        self._held: dict[Target, deque[tuple[int, Any]]] = {target: deque() for target in Target}

    def begin(self, fault: Fault, now_ns: int) -> None:
        """Inject a fault from now on, in place of the one in progress."""
        self._end(now_ns)
        self.fault, self._end_ns = fault, now_ns + round(fault.duration_s * 1e9)

    def end_if_over(self, now_ns: int) -> Fault | None:
        """Return the fault that ends at this instant. What it held back is due."""
        if self.fault is None or now_ns < self._end_ns:
            return None
        ended = self.fault
        self._end(now_ns)
        return ended

    def pass_on(self, target: Target, item: Any, now_ns: int) -> list[Any]:
        """Pass an item that came now through the fault; return what goes on now, in order of arrival."""
        held = self._held[target]
        due_ns = self._due_ns(target, now_ns)
        if due_ns is not None and len(held) < MAX_HELD:
            held.append((due_ns, item))
        return self.take_due(target, now_ns)

    def take_due(self, target: Target, now_ns: int) -> list[Any]:
        """Return the items held back until now, in the order in which they came."""
        held, due = self._held[target], []
        while held and held[0][0] <= now_ns:
            due.append(held.popleft()[1])
        return due

    def _due_ns(self, target: Target, now_ns: int) -> int | None:
        """Return when an item that came now may go on; None for never."""
        fault = self.fault
        if fault is None or fault.target is not target or now_ns >= self._end_ns:
            return now_ns
        if fault.kind is Kind.DROP:
            return None if self._random.random() < fault.probability else now_ns
        if fault.kind is Kind.DELAY:
            return min(now_ns + round(fault.delay_s * 1e9), self._end_ns)
        return self._end_ns

    def _end(self, now_ns: int) -> None:
        self.fault = None
        for target, held in self._held.items():
            self._held[target] = deque((min(due_ns, now_ns), item) for due_ns, item in held)
