# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that leads the shoulder up from where it is measured, slowly; the elbow stays."""

from __future__ import annotations

import numpy as np

from remote_inference.server.manifest.manifest import ModelSource
from support.nodes.offset_policy import OffsetPolicy
from support.nodes.rig import CONTRACT

ROWS = 90
VELOCITY = 0.5  # [rad/s]
WAY = np.outer(np.arange(ROWS) * VELOCITY / CONTRACT["fps"], (1.0, 0.0)).astype(np.float32)


class RampPolicy(OffsetPolicy):
    """Adds the way to the state."""

    def __init__(self, source: ModelSource) -> None:
        super().__init__("ramp", WAY, trained_fps=CONTRACT["fps"])
