# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The tutorial about groups runs, and prints what it shows."""

from __future__ import annotations

import sys

import notebooks
import pytest


def test_the_notebook_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", "")  # what the notebook changes is put back
    notebook = notebooks.read(notebooks.TUTORIALS / "rollouts.ipynb")
    assert notebook["nbformat"] == 4
    assert notebooks.run_cells(notebook) == notebooks.stored(notebook), (
        "python tools/notebooks.py stores it anew"
    )
