# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Control ticks as rows of one flat table: what each command was and where it came from."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from remote_inference.bags.export.format import ControlTick, Format
from remote_inference.bags.timeline.messages import name_of
from remote_inference.bags.timeline.robot_bag import FloatArray
from remote_inference.base.contract.contract import Contract
from remote_inference.robot.command import CommandSource

# Type and value of the columns before those of the joints, by name; the types are pyarrow's.
COLUMNS: Mapping[str, tuple[str, Callable[[ControlTick], Any]]] = {
    "t_ns": ("int64", lambda tick: tick.t_ns),  # by the recorder's clock
    "episode_index": ("int64", lambda _: None),  # in the table, from 0
    "episode_id": ("int64", lambda tick: tick.episode_id),  # of the robot
    "tick": ("int64", lambda tick: tick.tick),
    "task": ("string", lambda tick: tick.task),
    "client_state": ("string", lambda tick: tick.client_state),
    "paused": ("bool", lambda tick: tick.paused),
    "source": ("string", lambda tick: name_of(CommandSource, tick.source)),
    "phase": ("string", lambda tick: tick.phase.name.lower()),  # policy, person or hold
    "interventions": ("string", lambda tick: " ".join(tick.interventions)),  # rules of the guard
    "session_id": ("string", lambda tick: tick.session_id),
    "seq_id": ("int64", lambda tick: tick.seq_id if tick.session_id else None),
    "step_index": ("int64", lambda tick: tick.step_index if tick.session_id else None),
    "row_fraction": ("float64", lambda tick: tick.row_fraction if tick.session_id else None),
    "action_age_s": ("float64", lambda tick: _known(tick.age_s)),
    "queue_wait_ms": ("float64", lambda tick: _known(tick.queue_wait_ms)),
    "inference_ms": ("float64", lambda tick: _known(tick.inference_ms)),
    "policy_version": ("string", lambda tick: tick.policy_version),
    "shadow": ("bool", lambda tick: tick.shadow),
}


def columns_of(contract: Contract) -> dict[str, str]:
    """Return name and type of all columns; those of joints are `state.` and `action.` and the name."""
    joints = [f"state.{name}" for name in contract.state_names]
    joints += [f"action.{name}" for name in contract.actions.names]
    return {name: kind for name, (kind, _) in COLUMNS.items()} | dict.fromkeys(joints, "float64")


def row_of(tick: ControlTick, episode_index: int, contract: Contract) -> dict[str, Any]:
    """Return a tick's values by column; None where there is none."""
    row = {name: value(tick) for name, (_, value) in COLUMNS.items()} | {"episode_index": episode_index}
    row |= _by_name("state", contract.state_names, tick.state)
    return row | _by_name("action", contract.actions.names, tick.action)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _by_name(kind: str, names: tuple[str, ...], values: FloatArray | None) -> dict[str, float | None]:
    listed: list[float] | list[None] = [None] * len(names) if values is None else values.tolist()
    return {f"{kind}.{name}": value for name, value in zip(names, listed, strict=True)}


class CsvTable(Format):
    """Writes RFC 4180 with a header line; an unknown value is an empty field."""

    def __init__(self, out: Path, contract: Contract, *, images: bool) -> None:
        super().__init__(out, contract, images=images)
        self._file = out.open("x", encoding="utf-8", newline="")
        self._writer = csv.DictWriter(self._file, list(columns_of(contract)))
        self._writer.writeheader()

    def add(self, tick: ControlTick) -> None:
        self._writer.writerow(row_of(tick, self.written.episodes, self.contract))
        self.written.ticks += 1

    def close(self) -> None:
        self._file.close()
