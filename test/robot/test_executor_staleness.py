# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What came while the executor hung counts as heard only when all of it must have been run."""

from __future__ import annotations

from remote_inference.robot.watchdog import ExecutorStaleness

EXECUTOR_STALE_NS, CATCH_UP_NS, SETTLE_NS = 50_000_000, 100_000_000, 1_000_000_000
ROUND_NS = 20_000_000


def test_each_round_says_that_everything_was_heard() -> None:
    staleness = ExecutorStaleness(0)
    for now_ns in range(ROUND_NS, 10 * ROUND_NS, ROUND_NS):
        staleness.update(now_ns)
        assert staleness.heard_ns == now_ns


def test_a_round_that_is_somewhat_late_is_one() -> None:
    staleness = ExecutorStaleness(0)
    staleness.update(EXECUTOR_STALE_NS)
    assert staleness.heard_ns == EXECUTOR_STALE_NS


def test_after_a_hang_the_first_rounds_may_have_run_a_part_of_what_waited() -> None:
    staleness = ExecutorStaleness(0)
    staleness.update(ROUND_NS)
    back_ns = ROUND_NS + EXECUTOR_STALE_NS + 1
    for now_ns in range(back_ns, back_ns + CATCH_UP_NS, ROUND_NS):
        staleness.update(now_ns)
        assert staleness.heard_ns == ROUND_NS
    staleness.update(back_ns + CATCH_UP_NS)
    assert staleness.heard_ns == back_ns + CATCH_UP_NS


def test_another_hang_begins_anew() -> None:
    staleness = ExecutorStaleness(0)
    staleness.update(EXECUTOR_STALE_NS + 1)
    staleness.update(2 * EXECUTOR_STALE_NS + 3)
    staleness.update(EXECUTOR_STALE_NS + 1 + CATCH_UP_NS)
    assert staleness.heard_ns == 0


def test_an_executor_that_pauses_again_and_again_is_slow_and_runs_what_comes() -> None:
    """Else no person could ever take a robot over whose node is busy."""
    staleness = ExecutorStaleness(0)
    now_ns = 0
    while now_ns < SETTLE_NS:
        assert staleness.heard_ns == 0
        now_ns += EXECUTOR_STALE_NS + 1
        staleness.update(now_ns)
        now_ns += ROUND_NS
        staleness.update(now_ns)
    now_ns += EXECUTOR_STALE_NS + 1
    staleness.update(now_ns)
    assert staleness.heard_ns == now_ns
    for _ in range(1 + CATCH_UP_NS // ROUND_NS):
        now_ns += ROUND_NS
        staleness.update(now_ns)
    heard_ns = now_ns
    staleness.update(now_ns + EXECUTOR_STALE_NS + 1)
    assert staleness.heard_ns == heard_ns, "a hang after that is one again"


def test_an_executor_is_slow_once_it_had_pauses_for_longer_than_the_settling_time() -> None:
    staleness = ExecutorStaleness(0)
    first_ns = EXECUTOR_STALE_NS + 1
    for now_ns in range(first_ns, first_ns + SETTLE_NS + 1, EXECUTOR_STALE_NS + 1):
        staleness.update(now_ns)
    assert staleness.heard_ns == 0
    staleness.update(first_ns + SETTLE_NS)
    assert staleness.heard_ns == 0
    staleness.update(first_ns + SETTLE_NS + 1)
    assert staleness.heard_ns == first_ns + SETTLE_NS + 1


def test_a_hang_after_an_executor_had_caught_up_is_a_first_one() -> None:
    """The settling time begins with it, not with one of long ago."""
    staleness = ExecutorStaleness(0)
    back_ns = 0
    for _ in range(2 + SETTLE_NS // (EXECUTOR_STALE_NS + CATCH_UP_NS)):
        back_ns += EXECUTOR_STALE_NS + 1
        staleness.update(back_ns)
        assert staleness.heard_ns < back_ns
        for now_ns in range(back_ns + ROUND_NS, back_ns + CATCH_UP_NS + 1, ROUND_NS):
            staleness.update(now_ns)
        back_ns += CATCH_UP_NS
        assert staleness.heard_ns == back_ns


def test_the_time_begins_when_the_executor_does() -> None:
    """A node is made some while before its executor goes round."""
    staleness = ExecutorStaleness(10**12)
    assert staleness.heard_ns == 10**12
    staleness.update(10**12 + EXECUTOR_STALE_NS)
    assert staleness.heard_ns == 10**12 + EXECUTOR_STALE_NS
    staleness.update(10**12 + 2 * EXECUTOR_STALE_NS + 1)
    assert staleness.heard_ns == 10**12 + EXECUTOR_STALE_NS
