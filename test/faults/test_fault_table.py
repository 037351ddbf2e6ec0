# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""docs/reference/faults.md and the suite list the same faults."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from support.faults.fault_table import Row, read_names, write_table

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "faults.md"


def fault_names(module: str) -> Iterator[str]:
    """Yield the faults of a module's tests, in its order."""
    for test in vars(import_module(module)).values():
        for mark in getattr(test, "pytestmark", ()):
            yield from _named_by(mark)


def _named_by(mark: pytest.Mark) -> Iterator[str]:
    if mark.name == "fault":
        yield mark.args[0]
    if mark.name == "parametrize":
        for parameter in mark.args[1]:
            for inner in getattr(parameter, "marks", ()):
                yield from _named_by(inner)


def test_the_document_lists_the_faults_of_the_suite() -> None:
    """If this fails, run `make fault-table`."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("test_*_faults.py"))
    suite = [name for module in modules for name in fault_names(module)]
    assert len(set(suite)) == len(suite) > 0
    assert read_names(DOCUMENT) == suite


def test_a_table_is_written_in_the_suite_s_order_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "faults.md"
    write_table(path, [Row(2, "frozen", "held", "0.4"), Row(1, "killed", "held", "1.2")])
    assert read_names(path) == ["killed", "frozen"]
    assert "| killed | held | 1.2 |" in path.read_text()
