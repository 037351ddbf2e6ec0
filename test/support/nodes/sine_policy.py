# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy of 10 Hz; its chunk is one round of a wave about the state: appended, chunks have no seam."""

from __future__ import annotations

import numpy as np

from remote_inference.server.manifest.manifest import ModelSource
from support.nodes.offset_policy import OffsetPolicy

CHUNK_SIZE = 20
AMPLITUDE = 0.3  # rad
ROUND = (AMPLITUDE * np.sin(2.0 * np.pi * np.arange(CHUNK_SIZE) / CHUNK_SIZE)).astype(np.float32)


class WavePolicy(OffsetPolicy):
    """Adds the wave to the state."""

    def __init__(self, source: ModelSource) -> None:
        super().__init__("wave", ROUND[:, np.newaxis], trained_fps=10.0)
