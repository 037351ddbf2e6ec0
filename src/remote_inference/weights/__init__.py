# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Live weights: a trainer changes a policy while it is served, whole versions at a time."""

from __future__ import annotations

from remote_inference.weights.changes.compression import COMPRESSIONS, Compression
from remote_inference.weights.feed import ReceiverStatus
from remote_inference.weights.ledger import Built, SenderConfig
from remote_inference.weights.pump import ReceiverPump
from remote_inference.weights.reasons import Reason, WeightsError
from remote_inference.weights.receiver import WeightReceiver
from remote_inference.weights.sender import WeightSender
from remote_inference.weights.syncer import WeightSyncer
from remote_inference.weights.tensors.digest import show_digest, state_digest
from remote_inference.weights.transports.transport import TRANSPORTS, Link, LinkClosedError
from remote_inference.weights.turns import ReceiverLimits, Turn

__all__ = [
    "COMPRESSIONS",
    "TRANSPORTS",
    "Built",
    "Compression",
    "Link",
    "LinkClosedError",
    "Reason",
    "ReceiverLimits",
    "ReceiverPump",
    "ReceiverStatus",
    "SenderConfig",
    "Turn",
    "WeightReceiver",
    "WeightSender",
    "WeightSyncer",
    "WeightsError",
    "show_digest",
    "state_digest",
]
