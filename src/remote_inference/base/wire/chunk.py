# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""ActionChunk messages: the server writes them and the robot reads them."""

from __future__ import annotations

from builtin_interfaces.msg import Time
from std_msgs.msg import Header

from remote_inference.base.exchange import SCHEMA_VERSION_MAX, Chunk, ChunkStatus, find_schema_problem
from remote_inference.base.wire.arrays import (
    WireError,
    float32_field,
    from_float32_field,
    read_fields,
    write_fields,
)
from remote_inference.base.wire.cdr_view import view_message
from remote_inference.msg import ActionChunk


def chunk_to_message(chunk: Chunk, stamp: Time) -> ActionChunk:
    """Return the message of a chunk. Raises WireError unless both spaces are `[horizon, action_dim]`."""
    if chunk.model.ndim != 2 or chunk.model.shape != chunk.robot.shape:
        found = f"chunk: found model {list(chunk.model.shape)} and robot {list(chunk.robot.shape)}"
        raise WireError(f"{found}, expected [horizon, action_dim] for both")
    horizon, action_dim = chunk.model.shape
    return ActionChunk(
        header=Header(stamp=stamp),
        schema_version=SCHEMA_VERSION_MAX,
        horizon=horizon,
        action_dim=action_dim,
        chunk_model=float32_field(chunk.model),
        chunk_robot=float32_field(chunk.robot),
        **write_fields(chunk, ActionChunk),
    )


def chunk_from_bytes(data: bytes) -> Chunk:
    """Return the chunk in a serialized message, as `chunk_from_message` does.

    Raises WireError also for bytes that are no ActionChunk.
    """
    return chunk_from_message(view_message(data, ActionChunk, "chunk"))


def chunk_from_message(message: ActionChunk) -> Chunk:
    """Return the chunk in a message. Both spaces are read-only views; their values are not checked.

    Raises WireError for an unknown schema version or status, and when a space does not have
    horizon x action_dim values.
    """
    if problem := find_schema_problem(message.schema_version):
        raise WireError(f"chunk: {problem}")
    shape = (message.horizon, message.action_dim)
    shared = read_fields(message, ActionChunk, Chunk)
    shared["status"] = _status(message.status)
    shared["model"] = from_float32_field(message.chunk_model, shape, "chunk_model (horizon x action_dim)")
    shared["robot"] = from_float32_field(message.chunk_robot, shape, "chunk_robot (horizon x action_dim)")
    return Chunk(**shared)


def _status(value: int) -> ChunkStatus:
    try:
        return ChunkStatus(value)
    except ValueError:
        known = ", ".join(f"{status.value} ({status.name})" for status in ChunkStatus)
        raise WireError(f"status: found {value}, expected one of {known}") from None
