# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How many requests one call of the policy gets, by manifest, scheduler and policy."""

from __future__ import annotations

from remote_inference.core.policy import PolicyError, PolicySpec, ServingMode
from remote_inference.core.server.manifest.manifest import Manifest
from remote_inference.core.server.schedulers import SCHEDULERS
from remote_inference.core.server.schedulers.scheduler import Scheduler


def make_scheduler(manifest: Manifest, policy_max_batch: int) -> Scheduler:
    """Return the scheduler that a manifest names. policy_max_batch: the most one call may take."""
    options = manifest.scheduler_options
    return SCHEDULERS.get(manifest.scheduler).make(options, min(options.most, policy_max_batch))


def batches(manifest: Manifest) -> bool:
    """Return whether the manifest's scheduler may put several requests into one call of the policy."""
    return SCHEDULERS.get(manifest.scheduler).batches


def largest_batch(manifest: Manifest, spec: PolicySpec) -> int:
    """Return the most requests that one call of the policy may get. spec: as classified."""
    if not batches(manifest) or spec.serving_mode is ServingMode.EXCLUSIVE:
        return 1
    most: int = manifest.scheduler_options.most
    return min(most, spec.max_batch, manifest.max_sessions)


def require_batchable(manifest: Manifest, spec: PolicySpec) -> None:
    """Raise PolicyError when the scheduler batches and the policy takes one request at a time."""
    if batches(manifest) and spec.max_batch < 2:
        raise PolicyError(
            f"scheduler: found {manifest.scheduler!r}, but {spec.name} takes one request at a time"
        )
