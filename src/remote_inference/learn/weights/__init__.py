# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Live weights: a trainer changes a policy while it is served, whole versions at a time."""

from __future__ import annotations

from remote_inference.learn.weights.changes import COMPRESSIONS
from remote_inference.learn.weights.frames import Link, LinkClosedError
from remote_inference.learn.weights.ledger import SenderConfig
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.receiver import ReceiverLimits, ReceiverState, WeightReceiver
from remote_inference.learn.weights.sender import WeightSender
from remote_inference.learn.weights.syncer import ReceiverPump, WeightSyncer
from remote_inference.learn.weights.tensors import state_digest

__all__ = [
    "COMPRESSIONS",
    "Link",
    "LinkClosedError",
    "Reason",
    "ReceiverLimits",
    "ReceiverPump",
    "ReceiverState",
    "SenderConfig",
    "WeightReceiver",
    "WeightSender",
    "WeightSyncer",
    "WeightsError",
    "state_digest",
]
