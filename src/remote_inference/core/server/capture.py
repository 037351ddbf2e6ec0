# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A served request with its chunk."""

from __future__ import annotations

from dataclasses import dataclass

from remote_inference.core.exchange import Chunk, SessionOffer
from remote_inference.core.policy import Float32Array


@dataclass(frozen=True)
class Capture:
    """One request as it arrived and what it was answered with.

    data: serialized Observation. model and robot: float32 `[chunk_size, action_dim]`. batch_size: requests
    that were served together, this one included.
    """

    offer: SessionOffer
    data: bytes
    model: Float32Array
    robot: Float32Array
    policy_version: str
    seq_id: int
    batch_size: int

    @classmethod
    def of(cls, offer: SessionOffer, data: bytes, chunk: Chunk, batch_size: int) -> Capture:
        return cls(offer, data, chunk.model, chunk.robot, chunk.policy_version, chunk.seq_id, batch_size)
