# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Groups of rollouts: episodes of one task from one seed, isolated from each other, for learning."""

from __future__ import annotations

from remote_inference.learn.rollouts.blocking_pool import BlockingRolloutPool
from remote_inference.learn.rollouts.group import (
    Curriculum,
    Group,
    GroupPolicy,
    LocalPolicy,
    Sampling,
    Trajectory,
    find_advantages,
)
from remote_inference.learn.rollouts.pool import RolloutError, RolloutPool
from remote_inference.learn.rollouts.ray_transport import RayTransport
from remote_inference.learn.rollouts.transport import LocalTransport, Transport

__all__ = [
    "BlockingRolloutPool",
    "Curriculum",
    "Group",
    "GroupPolicy",
    "LocalPolicy",
    "LocalTransport",
    "RayTransport",
    "RolloutError",
    "RolloutPool",
    "Sampling",
    "Trajectory",
    "Transport",
    "find_advantages",
]
