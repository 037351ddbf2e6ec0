# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What `verify` checks, one module per check. A new check is a module, and a line in CHECKS."""

from __future__ import annotations

from remote_inference.bags.checks.check import Check, Finding, Level
from remote_inference.bags.checks.digests import DigestCheck
from remote_inference.bags.checks.sequences import GapCheck, IdCheck, OrderCheck

CHECKS: tuple[type[Check], ...] = (DigestCheck, GapCheck, OrderCheck, IdCheck)

__all__ = ["CHECKS", "Check", "Finding", "Level"]
