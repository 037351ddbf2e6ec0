# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Control ticks as rows of one flat table: what each command was and where it came from."""

from __future__ import annotations

import math
from typing import Any

from remote_inference.core.contract.contract import Contract
from remote_inference.recording.export.control_tick import ControlTick
from remote_inference.recording.timeline.joint_records import FloatArray
from remote_inference.recording.timeline.recorded_names import source_name

# Name and type of the columns before those of the joints; the types are pyarrow's.
COLUMNS = {
    "t_ns": "int64",  # of the tick, by the recorder's clock
    "episode_index": "int64",  # in the table, from 0
    "episode_id": "int64",  # of the robot
    "tick": "int64",
    "task": "string",
    "client_state": "string",
    "paused": "bool",
    "source": "string",  # name of CommandSource
    "phase": "string",  # policy, person or hold
    "interventions": "string",  # rules of the guard, separated by a blank
    "session_id": "string",
    "seq_id": "int64",
    "step_index": "int64",
    "row_fraction": "float64",  # of the row's time that has passed
    "action_age_s": "float64",
    "queue_wait_ms": "float64",
    "inference_ms": "float64",
    "policy_version": "string",
    "shadow": "bool",
}


def columns_of(contract: Contract) -> dict[str, str]:
    """Return name and type of all columns; those of joints are `state.` and `action.` and the name."""
    joints = [f"state.{name}" for name in contract.state_names]
    joints += [f"action.{name}" for name in contract.actions.names]
    return COLUMNS | dict.fromkeys(joints, "float64")


def row_of(tick: ControlTick, episode_index: int, contract: Contract) -> dict[str, Any]:
    """Return a tick's values by column; None where there is none."""
    row: dict[str, Any] = {
        "t_ns": tick.t_ns,
        "episode_index": episode_index,
        "episode_id": tick.episode_id,
        "tick": tick.tick,
        "task": tick.task,
        "client_state": tick.client_state,
        "paused": tick.paused,
        "source": source_name(tick.source),
        "phase": tick.phase.name.lower(),
        "interventions": " ".join(tick.interventions),
        "session_id": tick.session_id,
        "seq_id": tick.seq_id if tick.session_id else None,
        "step_index": tick.step_index if tick.session_id else None,
        "row_fraction": tick.row_fraction if tick.session_id else None,
        "action_age_s": _known(tick.age_s),
        "queue_wait_ms": _known(tick.queue_wait_ms),
        "inference_ms": _known(tick.inference_ms),
        "policy_version": tick.policy_version,
        "shadow": tick.shadow,
    }
    row |= _by_name("state", contract.state_names, tick.state)
    return row | _by_name("action", contract.actions.names, tick.action)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _by_name(kind: str, names: tuple[str, ...], values: FloatArray | None) -> dict[str, float | None]:
    listed: list[float] | list[None] = [None] * len(names) if values is None else values.tolist()
    return {f"{kind}.{name}": value for name, value in zip(names, listed, strict=True)}
