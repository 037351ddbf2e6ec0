# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs the processes of one verb in the foreground."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from remote_inference.deployment import bringup
from remote_inference.deployment.middleware import middleware_warnings
from remote_inference.deployment.process_group import run_until_interrupted


def run_in_foreground(processes: Sequence[bringup.Process], *, quiet: bool) -> int:
    """Run processes until one ends or the user interrupts; return the exit code. quiet: without warnings."""
    for warning in middleware_warnings(os.environ.get("RMW_IMPLEMENTATION", "")):
        if not quiet:
            print(f"remote-inference: {warning}", file=sys.stderr)
    return run_until_interrupted(processes)
