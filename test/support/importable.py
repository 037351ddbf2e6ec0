# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Processes of tests find this package, too, and the policies and environments in it."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).parents[1]


def python_path() -> str:
    """Return the PYTHONPATH of a process that shall import `support`."""
    return os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")]))
