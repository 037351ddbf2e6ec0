# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Environments and policies of the tests can be imported in other processes, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(_HERE), str(_HERE.parent / "environments"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
