# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Messages around a restart of the robot's node: each goes to the run that sent it, or waits for it."""

from __future__ import annotations

import pytest

from remote_inference.bags.decisions.replay import NEXT, Event, Recorded, RunAssigner, Stage
from remote_inference.bags.timeline.messages import RESTART, RESTART_S


def tick(number: int, time_s: float = 0.0) -> Recorded:
    return Recorded("executed", time_s, None, number)


COMMAND = Recorded("/joint_commands", 0.0, None)


@pytest.fixture
def within() -> RunAssigner:
    """Of a run that has come to tick 100."""
    made = RunAssigner()
    made.note(Event.BEGIN)
    assert made.take(tick(100))
    return made


def test_what_comes_before_the_journal_waits_for_it() -> None:
    made = RunAssigner()
    early = [tick(1), COMMAND, tick(2)]
    assert not any(map(made.take, early))
    assert made.note(Event.BEGIN) == tuple(early)
    assert all(map(made.take, early))


def test_numbers_that_begin_anew_within_a_run_are_of_the_next_one(within: RunAssigner) -> None:
    early = [tick(100 - RESTART - 1), COMMAND]
    assert not any(map(within.take, early))
    assert within.note(Event.END) == ()
    assert within.note(Event.BEGIN) == tuple(early)


def test_a_number_that_falls_back_by_a_little_is_of_the_same_run(within: RunAssigner) -> None:
    assert within.take(tick(100 - RESTART))


@pytest.mark.parametrize("number", [100 - RESTART, 100])
def test_after_a_pause_a_number_that_does_not_rise_is_of_the_next_run(
    number: int, within: RunAssigner
) -> None:
    """Of a node that was seen only when it had come so far."""
    assert within.take(tick(number, RESTART_S))
    early = [tick(number, 2.1 * RESTART_S), tick(101, 2.1 * RESTART_S)]
    assert not any(map(within.take, early))
    within.note(Event.END)
    assert within.note(Event.BEGIN) == tuple(early)


def test_after_a_pause_a_number_that_rises_is_of_the_same_run(within: RunAssigner) -> None:
    assert within.take(tick(101, 2.0 * RESTART_S))


def test_numbers_that_begin_anew_while_the_journal_goes_on_are_of_the_same_run(within: RunAssigner) -> None:
    early = [tick(1), COMMAND]
    assert not any(map(within.take, early))
    assert within.note(Event.MORE) == tuple(early)
    assert within.take(tick(101))


def test_what_follows_of_a_run_that_was_given_up_is_kept_from_the_next(within: RunAssigner) -> None:
    within.note(Event.UNREADABLE)
    assert not any(map(within.take, [tick(101), COMMAND]))
    within.note(Event.END)
    assert within.note(Event.BEGIN) == ()


def test_behind_a_run_that_was_given_up_numbers_that_begin_anew_are_of_the_next(
    within: RunAssigner,
) -> None:
    within.note(Event.UNREADABLE)
    next_run = [tick(1), COMMAND]
    assert not any(map(within.take, [tick(101), COMMAND, *next_run]))
    assert within.note(Event.BEGIN) == tuple(next_run)


def test_only_a_begin_or_more_of_the_journal_lets_messages_through() -> None:
    """Of every table of this kind: a mistake here would give one run's messages to another."""
    leads_within = {key for key, stage in NEXT.items() if stage is Stage.WITHIN}
    assert leads_within == {
        (Stage.BETWEEN, Event.BEGIN),
        (Stage.GIVEN_UP, Event.BEGIN),
        (Stage.AHEAD, Event.MORE),
    }
