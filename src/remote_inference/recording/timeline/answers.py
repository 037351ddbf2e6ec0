# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a recorded command came from: its instant, and the chunk that answered its request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from remote_inference.core.exchange import ChunkStatus, no_rows
from remote_inference.core.policy import Float32Array
from remote_inference.recording.bags.bag_error import BagError

CLOCKS_AGREE_NS = 1_000_000_000  # beyond it, stamps are of another clock than the recorder's: simulated time

RequestKey = tuple[str, int]  # session_id and seq_id


def stamped_ns(received_ns: int, message: Any) -> int:
    """Return when a message was stamped [ns]; its reception, when the stamp is of another clock."""
    stamp = message.header.stamp
    stamp_ns = int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)
    return received_ns if abs(received_ns - stamp_ns) > CLOCKS_AGREE_NS else stamp_ns


def request_key(message: Any) -> RequestKey:
    """Return the request that an observation, a chunk or a command names."""
    return message.session_id, int(message.seq_id)


@contextmanager
def expect_fields(path: Path, topic: str) -> Iterator[None]:
    """Turn a field that a message of this package lacks into BagError."""
    try:
        yield
    except AttributeError as error:
        raise BagError(
            f"{path}: {topic}: found messages without {error.name}, expected those of this package: they are "
            "of another version, or their definition is damaged"
        ) from error


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
        status = int(message.status)
        return cls(
            received_ns,
            ChunkStatus(status).name if status in set(ChunkStatus) else str(status),
            message.message,
            rows,
            float(message.queue_wait_ms),
            float(message.inference_ms),
            int(message.superseded_seqs),
            float(message.server_load),
            message.policy_version,
        )
