# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Ticks that wait to be published: none is lost without a word."""

from __future__ import annotations

from collections.abc import Callable

from remote_inference.msg import ExecutedAction
from remote_inference.robot.nodes.telemetry import ExecutedBacklog


def tick(index: int) -> Callable[[], ExecutedAction]:
    return lambda: ExecutedAction(tick=index)


def test_ticks_leave_in_their_order():
    backlog = ExecutedBacklog(3)
    for index in range(3):
        backlog.append(tick(index))
    assert [message.tick for message in backlog.take()] == [0, 1, 2]
    assert list(backlog.take()) == []
    assert backlog.take_news() == ""


def test_ticks_that_find_no_place_are_counted_and_told_once():
    backlog = ExecutedBacklog(3)
    for index in range(5):
        backlog.append(tick(index))
    assert backlog.dropped == 2
    assert "2 control ticks are missing" in backlog.take_news()
    assert backlog.take_news() == ""
    assert [message.tick for message in backlog.take()] == [0, 1, 2]
    for index in range(4):
        backlog.append(tick(index))
    assert "1 control ticks are missing" in backlog.take_news()
    assert backlog.dropped == 3
