# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The options of a run of the demo."""

from __future__ import annotations

from dataclasses import dataclass

# Parameters of the robot by policy, a folder of config/models. The params file's `replace` is for belt_arm.
POLICIES: dict[str, dict[str, object]] = {"belt_arm": {}, "belt_arm_flow": {"merge_mode": "auto"}}


@dataclass(frozen=True)
class DemoOptions:
    """What to run. Episode k has seed `FIRST_SEED + seed * 10_000 + k`."""

    episodes: int
    latency_ms: float
    strategy: str
    seed: int
    policy: str = "belt_arm"
    record: bool = True
