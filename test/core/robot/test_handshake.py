# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The way to a session: pauses, the order of servers, deadlines and epochs."""

from __future__ import annotations

import random

import pytest
from builders import ns
from hypothesis import given
from hypothesis import strategies as st

from remote_inference.core.robot.handshake import JITTER, Backoff, Link, Phase

INITIAL_S, MAXIMUM_S = 0.5, 10.0
TIMEOUT_NS = ns(2)


def make_link(*servers: str, seed: int = 0) -> Link:
    return Link(servers or ("/a",), Backoff(INITIAL_S, MAXIMUM_S), TIMEOUT_NS, random.Random(seed))


def pause_of(link: Link, now_ns: int) -> int:
    """Return how long a waiting link pauses, by bisection of `is_due`."""
    low, high = now_ns - 1, now_ns + ns(1000)
    assert link.is_due(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if link.is_due(middle) else (middle, high)
    return high - now_ns


def test_the_first_attempt_is_immediate():
    link = make_link()
    assert link.phase is Phase.WAITING
    assert link.is_due(0)


@given(st.integers(0, 10_000))
def test_pauses_double_to_the_maximum_with_bounded_jitter(seed: int):
    link = make_link(seed=seed)
    for expected_s in (0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0):
        link.fail(ns(100))
        pause_s = pause_of(link, ns(100)) / 1e9
        assert (1 - JITTER) * expected_s - 1e-6 <= pause_s <= (1 + JITTER) * expected_s + 1e-6


def test_robots_do_not_return_in_step():
    """After a server's restart a fleet would otherwise knock at the same instant, again and again."""
    pauses = set()
    for seed in range(20):
        link = make_link(seed=seed)
        link.fail(0)
        pauses.add(pause_of(link, 0))
    assert len(pauses) > 10


def test_backoff_survives_a_week_offline():
    assert Backoff(INITIAL_S, MAXIMUM_S).pause_ns(100_000, random.Random(0)) <= ns(MAXIMUM_S * (1 + JITTER))


def test_each_server_is_tried_at_once_and_the_pause_comes_after_the_last():
    link = make_link("/a", "/b", "/c")
    tried = []
    for _ in range(3):
        tried.append(link.server)
        assert link.is_due(0)
        link.fail(0)
    assert tried == ["/a", "/b", "/c"]
    assert link.server == "/a"
    assert not link.is_due(0)
    assert pause_of(link, 0) <= ns(INITIAL_S * (1 + JITTER))


def test_the_second_round_pauses_longer():
    link = make_link("/a", "/b")
    for _ in range(4):
        link.fail(0)
    assert pause_of(link, 0) >= ns(2 * INITIAL_S * (1 - JITTER))


def test_after_a_loss_the_same_server_is_tried_at_once():
    link = make_link("/a", "/b")
    link.advance(Phase.OPEN, 0)
    link.prove()
    link.lose(ns(5), move_on=False)
    assert link.server == "/a"
    assert link.phase is Phase.WAITING
    assert link.session is None
    assert link.is_due(ns(5))


def test_a_session_that_never_delivered_counts_as_a_failed_attempt():
    """A server that grants sessions and drops them at once would be asked without a pause."""
    link = make_link("/a")
    for _ in range(3):
        link.advance(Phase.OPENING, 0)
        link.advance(Phase.OPEN, 0)
        link.lose(0, move_on=False)
        assert not link.is_due(0)
    assert pause_of(link, 0) >= ns(4 * INITIAL_S * (1 - JITTER))


def test_moving_on_takes_the_next_server_at_once_and_wraps_around():
    link = make_link("/a", "/b")
    link.advance(Phase.OPEN, 0)
    link.prove()
    link.lose(ns(5), move_on=True)
    assert link.server == "/b"
    assert link.is_due(ns(5))
    link.lose(ns(5), move_on=True)
    assert link.server == "/a"


def test_success_ends_the_doubling():
    link = make_link()
    for _ in range(6):
        link.fail(0)
    link.advance(Phase.OPEN, 0)
    link.prove()
    link.lose(0, move_on=False)
    link.fail(0)
    assert pause_of(link, 0) <= ns(INITIAL_S * (1 + JITTER))


@pytest.mark.parametrize("phase", [Phase.CHECKING, Phase.OPENING, Phase.MATCHING])
def test_every_step_of_the_handshake_has_its_own_deadline(phase: Phase):
    """A request whose server dies never completes."""
    link = make_link()
    link.advance(phase, ns(3))
    assert not link.is_due(ns(3) + TIMEOUT_NS - 1)
    assert link.is_due(ns(3) + TIMEOUT_NS)


def test_an_open_link_is_never_due():
    link = make_link()
    link.advance(Phase.OPEN, 0)
    assert link.open
    assert not link.is_due(ns(1e6))


def test_each_opening_has_a_new_epoch():
    link = make_link()
    epochs = []
    for _ in range(3):
        link.advance(Phase.CHECKING, 0)
        link.advance(Phase.OPENING, 0)
        epochs.append(link.epoch)
        link.fail(0)
    assert epochs == [1, 2, 3]
