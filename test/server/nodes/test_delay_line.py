# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated network path of chunks: in order without jitter, by chance with it, never what is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from remote_inference.server.nodes.serving import DelayLine
from support.waiting import wait_until

DEADLINE_S = 10.0


def fail(error: Exception) -> None:
    raise AssertionError(f"nothing may fail here: {error}")


@contextmanager
def made(
    delay_s: float, on_failure: Callable[[Exception], None] = fail, **path: float
) -> Iterator[DelayLine]:
    line = DelayLine(delay_s, on_failure, **path)
    try:
        yield line
    finally:
        line.close()


def test_without_latency_an_action_runs_at_once_on_the_sender_s_thread() -> None:
    threads: list[threading.Thread] = []
    with made(0.0) as line:
        line.put(lambda: threads.append(threading.current_thread()))
    assert threads == [threading.current_thread()]


def test_actions_run_in_order_after_the_latency() -> None:
    ran: list[int] = []
    begin_s = time.monotonic()
    with made(0.05) as line:
        for number in range(20):
            line.put(lambda number=number: ran.append(number))  # type: ignore[misc]
        assert not line.empty
        wait_until(lambda: line.empty, "all have run", DEADLINE_S)
    assert time.monotonic() - begin_s >= 0.05
    assert ran == list(range(20))


def test_with_jitter_some_overtake_others_and_none_is_lost() -> None:
    ran: list[int] = []
    with made(0.05, jitter_s=0.05) as line:
        for number in range(50):
            line.put(lambda number=number: ran.append(number))  # type: ignore[misc]
        wait_until(lambda: line.empty, "all have run", DEADLINE_S)
    assert ran != sorted(ran)
    assert sorted(ran) == list(range(50))


def test_the_stated_fraction_is_lost_and_the_same_after_each_start() -> None:
    runs: list[list[int]] = []
    for _ in range(2):
        ran: list[int] = []
        with made(0.0, loss=0.25) as line:
            for number in range(400):
                line.put(lambda number=number, ran=ran: ran.append(number))  # type: ignore[misc]
            assert line.empty
        runs.append(ran)
    assert runs[0] == runs[1]
    assert 250 < len(runs[0]) < 350


def test_an_action_that_is_due_sooner_is_not_kept_waiting() -> None:
    """The thread sleeps for the first one when the second comes."""
    ran: list[int] = []
    with made(30.0, jitter_s=30.0) as line:  # the first of 60 draws is not the earliest
        for number in range(60):
            line.put(lambda number=number: ran.append(number))  # type: ignore[misc]
        wait_until(lambda: ran, "the earliest has run", DEADLINE_S)
    assert ran[0] > 0


def test_what_waits_is_dropped_at_the_end() -> None:
    ran: list[int] = []
    with made(30.0) as line:
        line.put(lambda: ran.append(1))
    assert ran == []


def test_a_failure_is_told_and_ends_the_line() -> None:
    failures: list[str] = []
    with made(0.01, lambda error: failures.append(str(error))) as line:
        line.put(lambda: int("no number") and None)
        wait_until(lambda: failures, "the failure is reported", DEADLINE_S)
        assert not line.empty
