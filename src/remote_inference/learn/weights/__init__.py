# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Live weights: a trainer changes a policy while it is served, whole versions at a time."""

from __future__ import annotations

from remote_inference.learn.weights.changes import COMPRESSIONS, Compression
from remote_inference.learn.weights.ledger import Built, SenderConfig
from remote_inference.learn.weights.links import Link, LinkClosedError
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.receiver import ReceiverLimits, ReceiverState, WeightReceiver
from remote_inference.learn.weights.sender import ReceiverStatus, WeightSender
from remote_inference.learn.weights.syncer import ReceiverPump, WeightSyncer
from remote_inference.learn.weights.tensors import show_digest, state_digest

__all__ = [
    "COMPRESSIONS",
    "Built",
    "Compression",
    "Link",
    "LinkClosedError",
    "Reason",
    "ReceiverLimits",
    "ReceiverPump",
    "ReceiverState",
    "ReceiverStatus",
    "SenderConfig",
    "WeightReceiver",
    "WeightSender",
    "WeightSyncer",
    "WeightsError",
    "show_digest",
    "state_digest",
]
