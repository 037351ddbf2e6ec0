# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is recorded of the core is equal as long as the core is, and a change is found in its first tick."""

from __future__ import annotations

from pathlib import Path

import golden
import numpy as np
import pytest

from remote_inference.robot.safety.guard import Guard


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    for kind in golden.KINDS:
        golden.record_worlds(tmp_path, kind, range(2))
    return tmp_path


def test_what_was_recorded_is_commanded_again(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert golden.compare(recorded, jobs=1) == 0
    assert "0 runs differ, first in: nothing" in capsys.readouterr().out


def test_the_first_tick_that_differs_is_named(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Guard._limit_step

    def slower(self: Guard, action: np.ndarray, reference: np.ndarray, velocity_scale: float) -> np.ndarray:
        return limit(self, action, reference, 0.9 * velocity_scale)

    monkeypatch.setattr(Guard, "_limit_step", slower)
    found = [golden.compare_file(path) for path in sorted(recorded.glob("*.golden"))]
    lines = [line for _, lines, _ in found for line in lines]
    assert any("differs in command" in line for line in lines)


def test_equal_worlds_have_one_digest(tmp_path: Path) -> None:
    first, second = (golden.record_worlds(tmp_path, "network", range(1)) for _ in range(2))
    assert first == second


def test_a_folder_without_records_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert golden.compare(tmp_path, jobs=1) == 2
    assert f"{tmp_path}: found no file *.golden" in capsys.readouterr().out
