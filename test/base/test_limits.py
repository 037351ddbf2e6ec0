# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Texts of strangers are bounded, and a bound that was exceeded is named."""

from __future__ import annotations

import pytest

from remote_inference.base.errors import UserError
from remote_inference.base.limits import find_length_problem, shorten, visible


def test_a_text_within_its_bound_is_left_alone() -> None:
    assert find_length_problem("task", "wave", 4) == ""
    assert shorten("wave", 4) == "wave"


def test_a_text_that_is_too_long_is_refused_with_its_length_and_not_with_itself() -> None:
    assert find_length_problem("task", "waves", 4) == "task: found 5 characters, expected 4 at most"


@pytest.mark.parametrize("length", [65, 1_000, 3_000_000])
def test_a_text_that_is_cut_says_so(length: int) -> None:
    cut = shorten("T" * length, 64)
    assert len(cut) == 64
    assert cut.endswith(f"T... ({length} characters)")


HOSTILE = "a\x1b[2J\x1b]0;mine\x07\u202eb\x9bc\nrobot_1: ok\t\x7f"


def test_a_terminal_obeys_nothing_of_another_s_text() -> None:
    shown = visible(HOSTILE)
    assert shown.isprintable()
    assert shown.startswith("a\\x1b[2J\\x1b]0;mine\\x07\\u202eb\\x9bc\\nrobot_1: ok")
    assert visible("grüne Äpfel, 苹果, \N{RED APPLE}") == "grüne Äpfel, 苹果, \N{RED APPLE}"


def test_a_text_in_lines_keeps_them_and_so_does_an_error() -> None:
    assert visible("first\n\tsecond\r", in_lines=True) == "first\n\tsecond\\r"
    assert str(UserError("found '\x1b[31m'\nexpected 2")) == "found '\\x1b[31m'\nexpected 2"
