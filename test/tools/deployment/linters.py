# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Linters as processes; a test skips where one is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def complaints(*command: str | Path) -> str:
    """Return a linter's findings, empty when all is well. Skips the test where the linter is missing."""
    name, *arguments = map(str, command)
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}: of requirements/dev.txt, or of systemd")
    ended = subprocess.run([found, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60.0)
    said = ended.stdout + ended.stderr
    return said if ended.returncode or "ok --" not in said else ""
