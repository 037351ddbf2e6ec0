# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What `verify` looks at, one module per check. A new check is a module, and a line in CHECKS."""

from __future__ import annotations

from remote_inference.recording.checks.check import Check, Finding, Level
from remote_inference.recording.checks.digests import DigestCheck
from remote_inference.recording.checks.gaps import GapCheck
from remote_inference.recording.checks.ids import IdCheck
from remote_inference.recording.checks.order import OrderCheck

CHECKS: tuple[type[Check], ...] = (DigestCheck, GapCheck, OrderCheck, IdCheck)

__all__ = ["CHECKS", "Check", "Finding", "Level"]
