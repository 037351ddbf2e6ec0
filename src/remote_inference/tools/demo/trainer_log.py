# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the trainer of the demo that learns leaves in the run's folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

LOG_FILE, POLICY_FOLDER = "trainer.jsonl", "policy"


@dataclass(frozen=True)
class Update:
    """One line of `trainer.jsonl`: what the server serves since `time_s` [s, Unix], and what it has cost.

    loss: mean over the steps since the update before (L1 of normalised joint targets). size_bytes: sent for
    this update. apply_s: that no inference could run meanwhile.
    """

    time_s: float
    version: int
    episodes: int
    frames: int
    steps: int
    loss: float
    size_bytes: int
    apply_s: float


def read_updates(folder: Path) -> list[Update]:
    """Return what a trainer has logged so far; a line that is being written does not count yet."""
    path = folder / LOG_FILE
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [Update(**json.loads(line)) for line in lines if line.endswith("\n")]
