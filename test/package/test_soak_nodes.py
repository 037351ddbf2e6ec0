# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How `make soak-nodes` judges memory, and stops that no event has caused."""

from __future__ import annotations

from typing import Any

import pytest
import soak_nodes


@pytest.mark.parametrize(
    ("sizes", "grown"),
    [
        ([100.0] * 50, 1.0),
        ([50.0] * 5 + [100.0] * 45, 1.0),  # the start does not count
        ([100.0 + second for second in range(100)], 194.5 / 114.5),
        ([100.0], 1.0),
    ],
)
def test_growth_compares_the_last_tenth_with_the_second(sizes: list[float], grown: float):
    assert soak_nodes.growth(sizes) == pytest.approx(grown)


class StoppedRobot:
    """A robot that stands; also its own panel."""

    def __init__(self, cause: str, silence_s: float) -> None:
        self.panel = self
        self._cause, self._silence_s = cause, silence_s

    def find_stop(self) -> str:
        return self._cause

    def longest_silence_s(self) -> float:
        return self._silence_s

    def go_on(self) -> None:
        self._cause = ""


BEAT = "stopped by beat: beat is silent, expected a message every 0.5 s"


@pytest.mark.parametrize(
    ("cause", "silence_s", "unplanned", "late_beats"),
    [
        ("", 2.0, 0, 0),
        (BEAT, 0.1, 1, 0),  # it was sent: the robot, or the way to it, is to blame
        (BEAT, 0.6, 0, 1),
        ("the command watchdog has stopped the controllers", 0.6, 1, 0),
    ],
)
def test_a_stop_is_a_failure_unless_the_soak_sent_the_beat_too_late(
    cause: str, silence_s: float, unplanned: int, late_beats: int
):
    soak, robot = soak_nodes.Soak(), StoppedRobot(cause, silence_s)
    stood: Any = robot
    assert soak._go_on_if_stopped(stood, "before pause", 0.0) == bool(cause)
    assert (len(soak.unplanned), len(soak.late_beats)) == (unplanned, late_beats)
    assert not robot.find_stop()
