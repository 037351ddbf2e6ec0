# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The options of a run of the demo."""

from __future__ import annotations

from dataclasses import dataclass

POLICIES = {
    "belt_arm": "regression, trained with latency",
    "belt_arm_flow": "flow matching, trained with latency",
    "belt_arm_beginner": "regression, with latency as input, trained as if there were none",
    "belt_arm_plain": "regression, trained without",
    "belt_arm_guidance": "flow matching, trained without, guided at inference",
}
"""What each folder of config/models holds."""


@dataclass(frozen=True)
class DemoOptions:
    """What to run. Episode k has seed `FIRST_SEED + seed * 10_000 + k`."""

    episodes: int
    latency_ms: float
    strategy: str
    seed: int
    policy: str  # folder of config/models, or any folder's absolute path
    record: bool = True
    jitter_ms: float = 0.0  # largest deviation of the latency, either way
    loss: float = 0.0  # fraction of the chunks

    @property
    def path_text(self) -> str:
        """What the network path does to chunks, in words."""
        jitter = f" ± {self.jitter_ms:g}" if self.jitter_ms else ""
        loss = f", {self.loss:.0%} lost" if self.loss else ""
        return f"{self.latency_ms:g}{jitter} ms{loss}"
