# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that stays where the robot is, computes while its gate is closed, and fails on demand."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from remote_inference.base.policy import Float32Array, PolicyError, PolicySpec
from remote_inference.server.manifest.manifest import ModelSource
from support.nodes.rig import DEADLINE_S, FEATURE, JOINTS
from support.nodes.state_processors import StateProcessors

CHUNK_SIZE = 20


class GatedPolicy:
    """A policy of this process, which a test holds up."""

    def __init__(self, source: ModelSource) -> None:
        self.spec = PolicySpec(
            name="gated",
            revision="1",
            fingerprint="gated-1",
            state_names=JOINTS,
            action_names=JOINTS,
            image_shapes={FEATURE: (48, 64, 3)},
            chunk_size=CHUNK_SIZE,
            trained_fps=30.0,
        )
        self.gate = threading.Event()
        self.gate.set()
        self.computing = threading.Event()
        self.fails = False

    def make_processors(self) -> StateProcessors:
        return StateProcessors()

    def predict(self, batch: Sequence[Any]) -> list[Float32Array]:
        if not self.gate.is_set():
            self.computing.set()
            assert self.gate.wait(DEADLINE_S), "the test has not opened the gate"
        if self.fails:
            raise PolicyError("the policy has no idea")
        return [np.tile(state, (CHUNK_SIZE, 1)) for state in batch]

    def reset(self) -> None:
        """Do nothing: the policy remembers nothing."""

    def close(self) -> None:
        """Do nothing: there is no device."""
