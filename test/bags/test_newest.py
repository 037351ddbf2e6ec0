# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What of a topic is kept for the control ticks that come later."""

from __future__ import annotations

from remote_inference.bags.timeline.messages import LATE_NS, Newest

MS = 1_000_000


def test_the_newest_message_at_a_moment_is_found_though_later_ones_were_read() -> None:
    newest = Newest()
    for number in range(10):
        newest.add(number * 100 * MS, number)
    assert newest.at(-1) is None
    assert newest.at(0) == 0
    assert newest.at(450 * MS) == 4
    assert newest.at(10_000 * MS) == 9


def test_what_no_tick_can_ask_for_any_more_is_forgotten() -> None:
    """Before the node starts and after it has ended, no tick comes, and pictures would fill the memory."""
    newest = Newest()
    for number in range(1000):
        newest.add(number * 100 * MS, number)
    assert len(newest._messages) <= LATE_NS // (100 * MS) + 2
    assert newest.at(999 * 100 * MS - LATE_NS) == 999 - LATE_NS // (100 * MS)
