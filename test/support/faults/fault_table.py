# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The table that `--fault-table` writes: every fault, what the robot did and how fast it recovered."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from typing_extensions import Self

from support.faults.arm import PARAMETERS, POLICY
from support.faults.judge import FPS, TRANSPORT_S

PROPERTY = "fault"  # among a test's user properties, which reach the controller from a worker process
HEAD = """\
# Faults

Made by `make fault-table`; do not edit. Each row is a test on real processes. Every command that the arm
received was judged on the arm's own clock: within the limits, at most one step from the one before (from
where the arm is measured, if it did not hear or follow that one, or the node was stuck), computed from a
state at most {age:g} s old (and {transport:g} s for both ways), of the running episode.

The time to recover counts from the end of the fault to the first command computed from a later state. Where a
process was started again, that includes its start. The machine was a small one with two cores.

Chunks: {rows} actions at {fps:g} Hz. Parameters of the robot's node that differ from their defaults:

{parameters}

| fault | what the robot did | time to recover [s] |
|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """One fault; `order` is its test's place in the suite."""

    order: int
    name: str
    observed: str
    recovery: str

    def properties(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, properties: Iterable[tuple[str, Any]]) -> Self | None:
        """Return the row among a report's user properties."""
        return next((cls(**value) for name, value in properties if name == PROPERTY), None)


def write_table(path: Path, rows: Iterable[Row]) -> None:
    parameters = "\n".join(f"- `{name}`: {value}" for name, value in PARAMETERS.items())
    head = HEAD.format(
        age=PARAMETERS["max_action_age_s"],
        transport=TRANSPORT_S,
        rows=POLICY["chunk_size"],
        fps=FPS,
        parameters=parameters,
    )
    lines = [f"| {row.name} | {row.observed} | {row.recovery} |\n" for row in sorted(rows, key=_order)]
    path.write_text(head + "".join(lines), encoding="utf-8")


def read_names(path: Path) -> list[str]:
    """Return the faults that a table lists."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split(" | ")[0].removeprefix("| ") for line in lines if re.match(r"\| (?!fault \|)", line)]


def _order(row: Row) -> int:
    return row.order
