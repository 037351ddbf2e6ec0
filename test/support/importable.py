# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Processes of tests find this package, too, and the policies, environments and links in it."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).parents[1]


def python_path() -> str:
    """Return the PYTHONPATH of a process that shall import `support` and the links of the benchmarks."""
    ours = [str(TESTS), str(TESTS.parent / "benchmarks")]
    return os.pathsep.join(filter(None, [*ours, os.environ.get("PYTHONPATH", "")]))
