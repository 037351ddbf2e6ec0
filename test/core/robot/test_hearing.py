# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What came while the executor hung counts as heard only when all of it must have been run."""

from __future__ import annotations

from remote_inference.core.robot.safety.hearing import Hearing

UNHEARD_NS, CATCH_UP_NS, SETTLE_NS = 50_000_000, 100_000_000, 1_000_000_000
ROUND_NS = 20_000_000


def test_each_round_says_that_everything_was_heard() -> None:
    hearing = Hearing(0)
    for now_ns in range(ROUND_NS, 10 * ROUND_NS, ROUND_NS):
        hearing.note(now_ns)
        assert hearing.heard_ns == now_ns


def test_a_round_that_is_somewhat_late_is_one() -> None:
    hearing = Hearing(0)
    hearing.note(UNHEARD_NS)
    assert hearing.heard_ns == UNHEARD_NS


def test_after_a_hang_the_first_rounds_may_have_run_a_part_of_what_waited() -> None:
    hearing = Hearing(0)
    hearing.note(ROUND_NS)
    back_ns = ROUND_NS + UNHEARD_NS + 1
    for now_ns in range(back_ns, back_ns + CATCH_UP_NS, ROUND_NS):
        hearing.note(now_ns)
        assert hearing.heard_ns == ROUND_NS
    hearing.note(back_ns + CATCH_UP_NS)
    assert hearing.heard_ns == back_ns + CATCH_UP_NS


def test_another_hang_begins_anew() -> None:
    hearing = Hearing(0)
    hearing.note(UNHEARD_NS + 1)
    hearing.note(2 * UNHEARD_NS + 3)
    hearing.note(UNHEARD_NS + 1 + CATCH_UP_NS)
    assert hearing.heard_ns == 0


def test_an_executor_that_pauses_again_and_again_is_slow_and_runs_what_comes() -> None:
    """Else no person could ever take a robot over whose node is busy."""
    hearing = Hearing(0)
    now_ns = 0
    while now_ns < SETTLE_NS:
        assert hearing.heard_ns == 0
        now_ns += UNHEARD_NS + 1
        hearing.note(now_ns)
        now_ns += ROUND_NS
        hearing.note(now_ns)
    now_ns += UNHEARD_NS + 1
    hearing.note(now_ns)
    assert hearing.heard_ns == now_ns
    for _ in range(1 + CATCH_UP_NS // ROUND_NS):
        now_ns += ROUND_NS
        hearing.note(now_ns)
    heard_ns = now_ns
    hearing.note(now_ns + UNHEARD_NS + 1)
    assert hearing.heard_ns == heard_ns, "a hang after that is one again"


def test_an_executor_is_slow_once_it_had_pauses_for_longer_than_the_settling_time() -> None:
    hearing = Hearing(0)
    first_ns = UNHEARD_NS + 1
    for now_ns in range(first_ns, first_ns + SETTLE_NS + 1, UNHEARD_NS + 1):
        hearing.note(now_ns)
    assert hearing.heard_ns == 0
    hearing.note(first_ns + SETTLE_NS)
    assert hearing.heard_ns == 0
    hearing.note(first_ns + SETTLE_NS + 1)
    assert hearing.heard_ns == first_ns + SETTLE_NS + 1


def test_a_hang_after_an_executor_had_caught_up_is_a_first_one() -> None:
    """The settling time begins with it, not with one of long ago."""
    hearing = Hearing(0)
    back_ns = 0
    for _ in range(2 + SETTLE_NS // (UNHEARD_NS + CATCH_UP_NS)):
        back_ns += UNHEARD_NS + 1
        hearing.note(back_ns)
        assert hearing.heard_ns < back_ns
        for now_ns in range(back_ns + ROUND_NS, back_ns + CATCH_UP_NS + 1, ROUND_NS):
            hearing.note(now_ns)
        back_ns += CATCH_UP_NS
        assert hearing.heard_ns == back_ns


def test_the_time_begins_when_the_executor_does() -> None:
    """A node is made some while before its executor goes round."""
    hearing = Hearing(10**12)
    assert hearing.heard_ns == 10**12
    hearing.note(10**12 + UNHEARD_NS)
    assert hearing.heard_ns == 10**12 + UNHEARD_NS
    hearing.note(10**12 + 2 * UNHEARD_NS + 1)
    assert hearing.heard_ns == 10**12 + UNHEARD_NS
