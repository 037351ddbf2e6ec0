# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables of the demo: drawn on a terminal, plain text in a pipe."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from remote_inference.learn.environments.belt_arm.strategies import STRATEGIES
from remote_inference.tools.demo.command import Display, live_progress, summary_table, sweep_table
from remote_inference.tools.demo.results import Cell
from remote_inference.tools.demo.run import DemoOptions, Episode
from remote_inference.tools.tables import Table

DRAWN = re.compile("[\u2500-\u257f\x1b]")  # boxes and colours
CELLS = {
    (name, latency_ms): Cell(name, latency_ms, 9, 10) for name in STRATEGIES for latency_ms in (0.0, 300.0)
}
SUMMARY = {
    "latency_ms": {"p50": 310.2, "p95": 330.0, "p99": 350.9, "n": 57},
    "actions_by_source": {"none": 120, "chunk": 2600, "homing": 0},
    "states_visited": [{"state": "CONNECTING", "seconds": 1.2}, {"state": "STREAMING", "seconds": 90.0}],
    "successes": 9,
    "episodes": 10,
    "success_rate": 0.9,
    "policy": "belt_arm",
    "strategy": "trained",
    "injected": "300 ms",
}


def test_in_a_pipe_a_run_is_a_line_and_its_table_is_plain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    display = Display(Console(), quiet=False, give_json=None)
    (tmp_path / "summary.json").touch()
    with live_progress(display, DemoOptions(2, 300.0, "trained", 0, "belt_arm")) as tell:
        tell([Episode(1, 1, True, 2.0, 3.0)], "STREAMING")
    display.show_summary(SUMMARY, tmp_path)
    display.show_sweep(CELLS, tmp_path)
    said = capsys.readouterr().out
    assert not DRAWN.search(said)
    lines = said.splitlines()
    assert lines[0] == "trained, 300 ms: picked 1 of 1"
    assert lines[1] == "Belt arm demo"
    assert re.fullmatch(r"cubes picked +9 of 10 \(90%\)", lines[2])
    assert f"  {tmp_path}/summary.json" in lines
    assert re.search(r"^300 ms +90% \(9/10\)", said, re.MULTILINE)


def test_what_begins_is_announced_unless_the_demo_is_to_be_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet in (False, True):
        Display(Console(), quiet, give_json=None).announce("drawing report.png")
        assert capsys.readouterr().out == ("" if quiet else "drawing report.png\n")


@pytest.mark.parametrize("table", [summary_table(SUMMARY), sweep_table(CELLS)], ids=["run", "sweep"])
def test_a_terminal_of_80_columns_breaks_no_word_of_the_demo_s_tables(table: Table) -> None:
    output = io.StringIO()
    Console(file=output, width=80, force_terminal=True, color_system=None).print(table.to_rich())
    drawn = output.getvalue()
    assert max(map(len, drawn.splitlines())) <= 80
    words = {word for row in table.rows for cell in row for word in cell.split()}
    assert words <= set(drawn.split())
    assert table.title in drawn
