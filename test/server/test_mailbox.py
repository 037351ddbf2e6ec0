# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The mailbox: the newest request wins and the replaced ones are counted."""

from __future__ import annotations

import threading

from remote_inference.server.sessions import Mailbox, QueuedRequest


def test_an_empty_mailbox_gives_nothing():
    mailbox = Mailbox()
    assert mailbox.letter is None
    assert mailbox.take() is None


def test_the_newest_request_wins_and_says_how_many_it_replaced():
    mailbox = Mailbox()
    for number in range(4):
        mailbox.put(bytes([number]), arrival_ns=number)
    assert mailbox.letter is not None
    assert (mailbox.letter.arrival_ns, mailbox.letter.waiting_since_ns) == (3, 0)
    assert mailbox.take() == QueuedRequest(b"\x03", 3, superseded=3, waiting_since_ns=0)
    assert mailbox.take() is None


def test_counting_begins_anew_with_each_request_taken():
    mailbox = Mailbox()
    mailbox.put(b"a", 0)
    mailbox.put(b"b", 1)
    mailbox.take()
    mailbox.put(b"c", 2)
    queued = mailbox.take()
    assert queued is not None
    assert (queued.superseded, queued.waiting_since_ns) == (0, 2)


def test_every_request_is_either_taken_or_counted_when_two_threads_meet():
    mailbox = Mailbox()
    sent, done = 2000, threading.Event()
    taken: list[QueuedRequest] = []

    def take() -> None:
        while not done.is_set() or mailbox.letter is not None:
            if (queued := mailbox.take()) is not None:
                taken.append(queued)

    taker = threading.Thread(target=take)
    taker.start()
    for number in range(sent):
        mailbox.put(number.to_bytes(4, "big"), number)
    done.set()
    taker.join(timeout=30)
    assert not taker.is_alive()
    assert len(taken) + sum(queued.superseded for queued in taken) == sent
    order = [queued.data for queued in taken]
    assert order == sorted(order)
    assert order[-1] == (sent - 1).to_bytes(4, "big")
