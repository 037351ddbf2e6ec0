# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`weights_pause.py --control`: what it counts as held, and that its exit code says so."""

from __future__ import annotations

import argparse

import pytest
from weights_pause import report_ticks
from weights_robots import Window

from remote_inference.msg import ExecutedAction

ASKED = argparse.Namespace(robots=2, blocks=1, seconds=1.0)


def ticks(*sources: int, first: int = 0, version: str = "f@1") -> list[ExecutedAction]:
    return [
        ExecutedAction(tick=first + number, source=source, policy_version=version)
        for number, source in enumerate(sources)
    ]


def test_a_tick_without_an_action_of_the_policy_is_held_and_one_that_is_missing_is_lost() -> None:
    chunk, none, repeat = ExecutedAction.CHUNK, ExecutedAction.NONE, ExecutedAction.REPEAT_LAST
    window = Window()
    window.add([*ticks(chunk, chunk, first=7), *ticks(chunk, first=10)], [1.0, 1.5, 2.25])
    assert (window.ticks, window.held, window.lost) == (3, 0, 1)
    assert window.intervals_ms == [500.0, 750.0]
    window.add(ticks(chunk, none, repeat, version="f@2"), [1.0])
    window.add([], [])
    assert (window.ticks, window.held, window.lost) == (6, 2, 1)
    assert window.versions == {"f@1", "f@2"}


@pytest.mark.parametrize(("held", "kept"), [(0, True), (1, False)])
def test_one_held_tick_misses_the_goal(held: int, kept: bool, capsys: pytest.CaptureFixture[str]) -> None:
    windows = {False: [Window(30, 1, 0, {"f"}, [20.0])], True: [Window(30, held, 0, {"f@1"}, [21.0])]}
    assert report_ticks(windows, 10, ASKED) is kept
    printed = capsys.readouterr().out
    assert f"{held} control ticks without an action of the policy while updates came, allowed 0" in printed
