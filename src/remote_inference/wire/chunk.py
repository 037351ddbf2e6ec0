# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""ActionChunk messages: the server writes them and the robot reads them."""

from __future__ import annotations

from builtin_interfaces.msg import Time
from std_msgs.msg import Header

from remote_inference.core.exchange import SCHEMA_VERSION_MAX, Chunk, ChunkStatus
from remote_inference.msg import ActionChunk
from remote_inference.wire.arrays import WireError, float32_field, from_float32_field
from remote_inference.wire.cdr_view import view_message
from remote_inference.wire.schema import require_schema_version


def chunk_to_message(chunk: Chunk, stamp: Time) -> ActionChunk:
    """Return the message of a chunk. Raises WireError unless both spaces are `[horizon, action_dim]`."""
    if chunk.model.ndim != 2 or chunk.model.shape != chunk.robot.shape:
        raise WireError(
            f"chunk: found model {list(chunk.model.shape)} and robot {list(chunk.robot.shape)}, "
            "expected [horizon, action_dim] for both"
        )
    horizon, action_dim = chunk.model.shape
    return ActionChunk(
        header=Header(stamp=stamp),
        schema_version=SCHEMA_VERSION_MAX,
        session_id=chunk.session_id,
        session_epoch=chunk.session_epoch,
        seq_id=chunk.seq_id,
        episode_id=chunk.episode_id,
        client_mono_ns=chunk.client_mono_ns,
        status=int(chunk.status),
        message=chunk.message,
        horizon=horizon,
        action_dim=action_dim,
        chunk_model=float32_field(chunk.model),
        chunk_robot=float32_field(chunk.robot),
        queue_wait_ms=float(chunk.queue_wait_ms),
        inference_ms=float(chunk.inference_ms),
        superseded_seqs=chunk.superseded_seqs,
        server_load=float(chunk.server_load),
        policy_version=chunk.policy_version,
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
    require_schema_version(message.schema_version, "chunk")
    shape = (message.horizon, message.action_dim)
    return Chunk(
        session_id=message.session_id,
        session_epoch=message.session_epoch,
        seq_id=message.seq_id,
        episode_id=message.episode_id,
        client_mono_ns=message.client_mono_ns,
        status=_status(message.status),
        message=message.message,
        model=from_float32_field(message.chunk_model, shape, "chunk_model (horizon x action_dim)"),
        robot=from_float32_field(message.chunk_robot, shape, "chunk_robot (horizon x action_dim)"),
        queue_wait_ms=message.queue_wait_ms,
        inference_ms=message.inference_ms,
        superseded_seqs=message.superseded_seqs,
        server_load=message.server_load,
        policy_version=message.policy_version,
    )


def _status(value: int) -> ChunkStatus:
    try:
        return ChunkStatus(value)
    except ValueError:
        known = ", ".join(f"{status.value} ({status.name})" for status in ChunkStatus)
        raise WireError(f"status: found {value}, expected one of {known}") from None
