# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Processors of test policies that see the state alone, and whose rows are joint positions."""

from __future__ import annotations

from remote_inference.base.policy import Float32Array, PolicyObservation


class StateProcessors:
    """Takes the state as it is; remembers the resets."""

    def __init__(self) -> None:
        self.resets = 0

    def pre(self, observation: PolicyObservation) -> Float32Array:
        return observation.state

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model

    def reset(self) -> None:
        self.resets += 1
