# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""docs/reference/faults.md and the suite list the same faults."""

from __future__ import annotations

import re
from pathlib import Path

from fault_table import Row, read_names, write_table

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "faults.md"


def test_the_document_lists_the_faults_of_the_suite() -> None:
    """If this fails, run `make fault-table`."""
    suite = [
        name
        for path in sorted(Path(__file__).parent.glob("test_*_faults.py"))
        for name in re.findall(r'mark\.fault\(\s*"(.+?)"\s*\)', path.read_text(encoding="utf-8"))
    ]
    assert len(set(suite)) == len(suite) > 0
    assert read_names(DOCUMENT) == suite


def test_a_table_is_written_in_the_suite_s_order_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "faults.md"
    write_table(path, [Row(2, "frozen", "held", "0.4"), Row(1, "killed", "held", "1.2")])
    assert read_names(path) == ["killed", "frozen"]
    assert "| killed | held | 1.2 |" in path.read_text()
