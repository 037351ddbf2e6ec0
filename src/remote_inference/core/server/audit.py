# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One record per request: who asked, how long it took, how it ended."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class AuditRecord:
    """What becomes one JSON line. Joins the robot's bag by session_id and seq_id."""

    session_id: str
    client: str
    seq_id: int
    episode_id: int
    queue_wait_ms: float
    inference_ms: float
    superseded: int
    outcome: str  # "ok", or what the ERROR chunk says

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))
