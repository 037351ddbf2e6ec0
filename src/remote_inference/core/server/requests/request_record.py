# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the worker knows of one request: who asked, how long it took, how it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal


@dataclass(frozen=True)
class RequestRecord:
    """What the worker knows of one request; `recording.requests.request_log` describes each field."""

    session_id: str
    robot: str
    client: str
    seq_id: int = 0
    episode_id: int = 0
    policy_version: str = ""
    batch_size: int = 0
    queue_wait_ms: float = 0.0
    inference_ms: float = 0.0
    staleness_ms: float = 0.0
    superseded: int = 0
    status: Literal["ok", "error"] = "ok"
    outcome: str = "ok"
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_json(self, **head: str) -> str:
        """Return one line; `head` comes first."""
        return json.dumps({**head, **asdict(self)}, separators=(",", ":"))
