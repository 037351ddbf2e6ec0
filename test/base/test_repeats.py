# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Of lines that repeat fewer and fewer are said, with how many were left out; what is new is said at once."""

from __future__ import annotations

from remote_inference.base.repeats import MAX_SUBJECTS, Changes, Repeats


def said_at(times_s: list[float]) -> list[float]:
    """Return the times at which a line that comes at `times_s` is said."""
    repeats = Repeats()
    return [time_s for time_s in times_s if repeats.line("lost", time_s)]


def test_a_line_that_repeats_is_said_after_1_then_10_then_every_60_seconds() -> None:
    assert said_at([0.5 * number for number in range(400)]) == [0.0, 1.0, 11.0, 71.0, 131.0, 191.0]


def test_a_line_that_comes_again_after_a_quiet_minute_is_news() -> None:
    assert said_at([0.0, 0.5, 1.0, 2.0, 61.9, 62.5, 122.5, 123.5]) == [0.0, 1.0, 61.9, 122.5, 123.5]


def test_a_line_says_how_many_were_left_out_before_it() -> None:
    repeats = Repeats()
    lines = [repeats.line("lost", 0.25 * number) for number in range(5)]
    assert lines == ["lost", "", "", "", "lost (3 more since the last such line)"]


def test_what_was_left_out_before_a_quiet_minute_is_told_after_it() -> None:
    repeats = Repeats()
    lines = [repeats.line("lost", time_s) for time_s in (0.0, 0.5, 61.0)]
    assert lines == ["lost", "", "lost (1 more since the last such line)"]


def test_the_last_word_about_a_condition_is_true() -> None:
    changes = Changes()
    said = []
    for step in range(800):  # 40 s: it comes and goes for two seconds, and then stays
        now_s = 0.05 * step
        holds = now_s >= 2.0 or int(now_s / 0.2) % 2 == 1
        if changes.is_due("camera", holds=holds, now_s=now_s):
            said.append((round(now_s, 2), holds))
    assert said == [(0.2, True), (1.2, False), (11.2, True)]


def test_a_change_after_a_quiet_minute_is_said_at_once() -> None:
    changes = Changes()
    asked = [(0.0, True), (70.0, False), (70.5, True), (71.0, True)]
    assert [changes.is_due("camera", holds=holds, now_s=now_s) for now_s, holds in asked] == [
        *(True, True, False, True)
    ]


def test_lines_of_other_subjects_are_said_at_once() -> None:
    repeats = Repeats()
    assert [repeats.line(text, 0.0) for text in ("a", "b", "a", "b")] == ["a", "b", "", ""]


def test_numbers_make_no_new_line_and_names_with_numbers_do() -> None:
    repeats = Repeats()
    texts = ["joint_1: 0.5 s late", "joint_1: 7 s late", "joint_2: 0.5 s late", "joint_2: -1e-05 s late"]
    assert [repeats.line(text, 0.0) for text in texts] == [texts[0], "", texts[2], ""]
    quoted = ["'1' is missing", "'2' is missing", "'1' is missing"]
    assert [repeats.line(text, 0.0) for text in quoted] == [*quoted[:2], ""]


def test_what_repeats_may_be_named() -> None:
    repeats = Repeats()
    lines = [repeats.line(f"{what} failed", 0.1, subject="failed") for what in "abc"]
    assert lines == ["a failed", "", ""]


def test_subjects_of_strangers_are_forgotten_oldest_first() -> None:
    repeats = Repeats()
    for number in range(MAX_SUBJECTS + 1):
        repeats.line(f"/robot_{number}", 0.0)
    assert repeats.line(f"/robot_{MAX_SUBJECTS}", 0.1) == ""
    assert repeats.line("/robot_0", 0.1) == "/robot_0"
