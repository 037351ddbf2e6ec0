# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the replay of a bag's decisions has found."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from remote_inference.core.robot.command import Float64Array

EQUAL, DIFFERS, UNJUDGED = range(3)  # exit codes


@dataclass(frozen=True)
class Difference:
    """One thing that was recorded and not replayed so."""

    what: str  # tick, command, request, chunk or call, with its number
    time_s: float  # since the bag's begin
    field: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        where = f"{self.what} at {self.time_s:.3f} s"
        return f"{where}: {self.field}: recorded {self.recorded}, replayed {self.replayed}"


@dataclass
class Change:
    """What other parameters would have changed. Ticks are control ticks of the replay."""

    parameters: dict[str, Any]
    first_tick: int | None = None
    first_time_s: float = 0.0
    ticks: int = 0  # that command something else
    largest: dict[str, float] = field(default_factory=dict)  # difference by joint, where both command
    borrowed_chunks: int = 0

    def add(self, tick: int, time_s: float) -> None:
        """Take a tick that commands something else."""
        if self.first_tick is None:
            self.first_tick, self.first_time_s = tick, time_s
        self.ticks += 1

    def compare(self, names: tuple[str, ...], recorded: Float64Array, replayed: Float64Array) -> None:
        """Take both commands `[action_dim]` of a tick."""
        for name, difference in zip(names, np.abs(recorded - replayed), strict=True):
            self.largest[name] = max(self.largest.get(name, 0.0), float(difference))


@dataclass
class Report:
    """The outcome of a replay. Counts are by kind: ticks, commands, requests, chunks."""

    bag: str
    namespace: str
    runs: int = 0  # of the node
    entries: int = 0
    versions: list[str] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)
    unrecorded: Counter[str] = field(default_factory=Counter)  # replayed, but not in the bag
    unreplayed: Counter[str] = field(default_factory=Counter)  # in the bag, but after the journal's end
    watchdog_stops: int = 0  # commands that the command watchdog sent
    differences: int = 0
    first: Difference | None = None
    states: list[str] = field(default_factory=list)  # entered, in order
    problems: list[str] = field(default_factory=list)  # why something cannot be judged
    notes: list[str] = field(default_factory=list)
    change: Change | None = None  # with other parameters

    def add(self, difference: Difference) -> None:
        """Take a difference."""
        self.differences += 1
        if self.first is None or difference.time_s < self.first.time_s:
            self.first = difference

    @property
    def exit_code(self) -> int:
        if self.change is None and self.differences:
            return DIFFERS
        return UNJUDGED if self.problems else EQUAL

    def to_json(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        counts = {name: dict(getattr(self, name)) for name in ("compared", "unrecorded", "unreplayed")}
        parts = {
            name: part and asdict(part) for name, part in (("first", self.first), ("change", self.change))
        }
        return {**vars(self), **counts, **parts, "exit_code": self.exit_code}
