# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A test that hangs inside a library, where Python hears no signal, ends and is named; the others run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
# PyDLL keeps the interpreter's lock: no other Python thread can run while it waits.
HANGING_TEST = """\
import ctypes

def test_hang():
    ctypes.PyDLL(None).sleep(600)

def test_good():
    pass
"""
CONFTEST = """\
from support.hang_guard import HangGuard

def pytest_configure(config):
    config.pluginmanager.register(HangGuard(config, 2.0))
"""


def test_a_process_that_hangs_in_a_library_is_ended_and_its_test_fails(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS}\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_toy.py").write_text(HANGING_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:timeout"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120.0, check=False)
    assert "1 failed, 1 passed" in ended.stdout, ended.stdout
    assert "test_toy.py::test_hang" in ended.stdout
    assert "in test_hang" in ended.stdout + ended.stderr, "the stacks of the threads"
    failed = json.loads((tmp_path / ".pytest_cache/v/cache/lastfailed").read_text())
    assert list(failed) == ["test_toy.py::test_hang"]
