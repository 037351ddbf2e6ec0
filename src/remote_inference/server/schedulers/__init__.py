# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The schedulers that a manifest may name: one file, which holds its options, too, and one line each."""

from remote_inference.base.documents.registry import Registry
from remote_inference.server.schedulers.scheduler import Scheduler

__all__ = ["SCHEDULERS"]

GROUP = "remote_inference.schedulers"  # of the entry points by which other distributions add schedulers

SCHEDULERS = Registry[type[Scheduler]]("scheduler", group=GROUP)
SCHEDULERS.add("round_robin", f"{__name__}.scheduler:RoundRobin")
SCHEDULERS.add("micro_batch", f"{__name__}.scheduler:MicroBatch")
