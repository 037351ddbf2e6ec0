# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What waits for the worker: bounded however much arrives, and the newest messages remain."""

from __future__ import annotations

import threading

import pytest

from remote_inference.robot.step_lock import MAX_MESSAGES, Inbox


def test_work_and_messages_are_taken_in_the_order_in_which_they_came():
    inbox = Inbox[str]()
    inbox.put("pause")
    inbox.put_message("chunk")
    inbox.put("resume")
    assert list(inbox.take_all()) == ["pause", "chunk", "resume"]
    assert list(inbox.take_all()) == []
    assert inbox.take_dropped() == 0


def test_of_a_flood_of_messages_the_newest_remain_and_the_others_are_counted_once():
    inbox = Inbox[int]()
    for number in range(1000):
        inbox.put_message(number)
    assert MAX_MESSAGES == 8
    assert list(inbox.take_all()) == list(range(1000 - MAX_MESSAGES, 1000))
    assert inbox.take_dropped() == 1000 - MAX_MESSAGES
    assert inbox.take_dropped() == 0


def test_after_it_was_emptied_as_many_messages_may_wait_as_before():
    inbox = Inbox[int]()
    inbox.put_message(-1)
    inbox.take_all()
    for number in range(MAX_MESSAGES):
        inbox.put_message(number)
    assert inbox.take_dropped() == 0
    inbox.put_message(MAX_MESSAGES)
    assert inbox.take_dropped() == 1


def test_a_flood_of_messages_takes_no_work_away_and_changes_no_order():
    inbox = Inbox[str]()
    inbox.put("pause")
    for number in range(100):
        inbox.put_message(str(number))
    inbox.put("resume")
    inbox.put_message("last")
    kept = [str(number) for number in range(101 - MAX_MESSAGES, 100)]
    assert list(inbox.take_all()) == ["pause", *kept, "resume", "last"]


def test_what_comes_while_it_is_emptied_waits_for_the_next_time():
    """A flood must not keep the worker from its other duties."""
    inbox = Inbox[int]()
    inbox.put_message(0)
    taken = []
    for number in inbox.take_all():
        inbox.put_message(number + 1)
        taken.append(number)
    assert taken == [0]
    assert list(inbox.take_all()) == [1]


@pytest.mark.parametrize("threads", [4])
def test_several_threads_lose_nothing_uncounted(threads: int):
    inbox = Inbox[int]()
    puts = [
        threading.Thread(target=lambda: [inbox.put_message(number) for number in range(2000)])
        for _ in range(threads)
    ]
    for thread in puts:
        thread.start()
    taken = 0
    while any(thread.is_alive() for thread in puts):
        taken += len(list(inbox.take_all()))
    taken += len(list(inbox.take_all()))
    assert taken + inbox.take_dropped() == threads * 2000
