# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The schedulers that a manifest may name: one file and one line each."""

from remote_inference.core.registry import Registry
from remote_inference.core.server.scheduler import Scheduler

__all__ = ["SCHEDULERS"]

SCHEDULERS = Registry[type[Scheduler]]("scheduler")
SCHEDULERS.add("round_robin", f"{__name__}.round_robin:RoundRobin")
SCHEDULERS.add("micro_batch", f"{__name__}.micro_batch:MicroBatch")
