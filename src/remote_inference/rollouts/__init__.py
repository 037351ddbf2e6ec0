# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Groups of rollouts: episodes of one task from one seed, isolated from each other, for learning."""

from __future__ import annotations

from remote_inference.rollouts.blocking_pool import BlockingRolloutPool
from remote_inference.rollouts.curriculum import Curriculum
from remote_inference.rollouts.group import Group, Trajectory, find_advantages
from remote_inference.rollouts.group_policy import GroupPolicy, LocalPolicy, Sampling
from remote_inference.rollouts.local_transport import LocalTransport
from remote_inference.rollouts.pool import RolloutError, RolloutPool
from remote_inference.rollouts.transport import LeasedSlots, Transport

__all__ = [
    "BlockingRolloutPool",
    "Curriculum",
    "Group",
    "GroupPolicy",
    "LeasedSlots",
    "LocalPolicy",
    "LocalTransport",
    "RolloutError",
    "RolloutPool",
    "Sampling",
    "Trajectory",
    "Transport",
    "find_advantages",
]
