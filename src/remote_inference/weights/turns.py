# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a receiver waits for and takes, as a table; and what it accepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from remote_inference.weights.frames import Kind


class Turn(Enum):
    """What a receiver waits for."""

    IDLE = "a trainer"
    READY = "an update"
    STAGING = "parts of an update"
    STAGED = "the update to be applied"


# The frames that each turn takes; others are refused as out of turn. A hello begins anew, whatever is staged.
TAKES: Mapping[Turn, frozenset[Kind]] = {
    Turn.IDLE: frozenset({Kind.HELLO}),
    Turn.READY: frozenset({Kind.HELLO, Kind.UPDATE, Kind.RELEASE}),
    Turn.STAGING: frozenset({Kind.HELLO, Kind.PART, Kind.RELEASE}),
    Turn.STAGED: frozenset({Kind.HELLO, Kind.RELEASE}),
}


@dataclass(frozen=True)
class ReceiverLimits:
    """What a receiver accepts. claim_s, stall_s: silence [s] that ends a trainer's claim, or its update."""

    allow_nonfinite: bool = False
    claim_s: float = 60.0
    stall_s: float = 30.0
