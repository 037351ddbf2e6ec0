# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables that nothing is cut from, on a narrow terminal and in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from remote_inference.tools.tables import Table, print_table

LONG = "a_word_that_is_longer_than_any_terminal_is_wide_" * 3
TABLE = Table("Title [ms]", ("name", "p50"), [("robot_1", "7.0"), (LONG, "123.4")], ("p50",))


def test_a_pipe_gets_plain_aligned_text_of_any_width(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(TABLE)
    assert capsys.readouterr().out.splitlines() == [
        "Title [ms]",
        f"{'name':{len(LONG)}}    p50",
        f"{'robot_1':{len(LONG)}}    7.0",
        f"{LONG}  123.4",
    ]


def test_what_others_say_does_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(Table("", ("name",), [("\x1b[2Jrobot_1",)]))
    assert capsys.readouterr().out.splitlines() == ["name", r"\x1b[2Jrobot_1"]


def test_a_narrow_terminal_wraps_and_cuts_nothing() -> None:
    output = io.StringIO()
    Console(file=output, width=40, force_terminal=True, color_system=None).print(TABLE.to_rich())
    drawn = output.getvalue()
    assert max(map(len, drawn.splitlines())) <= 40
    assert "…" not in drawn
    assert "123.4" in drawn
    letters = "".join(line.split()[0] for line in drawn.splitlines() if "_" in line and "robot_1" not in line)
    assert letters.replace("\x1b", "") == LONG


def test_words_in_brackets_are_text_and_not_markup() -> None:
    output = io.StringIO()
    Console(file=output, width=40, force_terminal=True, color_system=None).print(
        Table("[bold]", ("a",), [("[red]",)]).to_rich()
    )
    assert "[bold]" in output.getvalue()
    assert "[red]" in output.getvalue()


def test_a_title_that_is_longer_than_its_table_stays_on_one_line() -> None:
    output = io.StringIO()
    title = "Cubes picked by injected latency"
    Console(file=output, width=80, force_terminal=True, color_system=None).print(
        Table(title, ("a",), [("b",)]).to_rich()
    )
    assert title in output.getvalue()
