# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a recorded command came from: its instant, and the chunk that answered its request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from remote_inference.core.contract.contract import Contract
from remote_inference.core.exchange import no_rows
from remote_inference.core.policy import Float32Array
from remote_inference.core.robot.command import Float64Array
from remote_inference.core.robot.pose_geometry import Poses
from remote_inference.recording.timeline.recorded_names import status_name

CLOCKS_AGREE_NS = 1_000_000_000  # beyond it, stamps are of another clock than the recorder's: simulated time

RequestKey = tuple[str, int]  # session_id and seq_id


def stamped_ns(received_ns: int, message: Any) -> int:
    """Return when a message was stamped [ns]; its reception, when the stamp is of another clock."""
    stamp_ns = stamp_of(message)
    return received_ns if abs(received_ns - stamp_ns) > CLOCKS_AGREE_NS else stamp_ns


def stamp_of(message: Any) -> int:
    """Return when a message was stamped [ns], by whatever clock."""
    stamp = message.header.stamp
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def request_key(message: Any) -> RequestKey:
    """Return the request that an observation, a chunk or a command names."""
    return message.session_id, int(message.seq_id)


@dataclass(frozen=True)
class Answer:
    """A chunk as recorded.

    rows: float32 `[horizon, action_dim]` in robot space; none on ERROR, or when they do not fit their shape.
    """

    received_ns: int  # by the recorder
    status: str  # name of ChunkStatus
    message: str
    rows: Float32Array
    queue_wait_ms: float
    inference_ms: float
    superseded: int
    server_load: float
    policy_version: str

    @classmethod
    def of(cls, received_ns: int, message: Any) -> Answer:
        horizon, width = int(message.horizon), int(message.action_dim)
        values = np.asarray(message.chunk_robot, np.float32)
        rows = values.reshape(horizon, width) if values.size == horizon * width else no_rows()
        return cls(
            received_ns,
            status_name(message.status),
            message.message,
            rows,
            float(message.queue_wait_ms),
            float(message.inference_ms),
            int(message.superseded_seqs),
            float(message.server_load),
            message.policy_version,
        )


def to_robot_row(row: Float32Array, command: Float64Array, contract: Contract) -> Float64Array | None:
    """Return a chunk's row in the robot's units, to be compared with its command `[action_dim]`.

    None for a row of another width than the contract's. A quaternion may be longer or shorter than 1, and
    have either sign: it is returned as the command has it, as the guard changes nothing there.
    """
    units = contract.action_units
    if len(row) != units.policy_dim:
        return None
    found = units.to_robot(row.astype(np.float64))
    unified = Poses(contract.actions.poses, contract.actions.names).unify(found, command)
    return found if unified is None else unified
