# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Sessions of robots that vanished, went elsewhere or fell silent end after a grace period."""

from __future__ import annotations

from types import SimpleNamespace

from remote_inference.server.sessions import Session, SessionExpiry
from support.builders import ShiftProcessors, make_offer, ns

GRACE_S = 10.0
IDLE_S = 300.0


class Expiry:
    """Two sessions; their robots are there or not."""

    def __init__(self) -> None:
        self.rule = SessionExpiry(GRACE_S, IDLE_S)
        self.sessions = [
            Session(name, make_offer(client=name), ShiftProcessors(), opened_ns=0) for name in ("a", "b")
        ]
        self.absent: set[str] = set()

    def expired(self, at_s: float) -> dict[str, str]:
        gone = self.rule.expired(
            self.sessions, lambda session: session.session_id not in self.absent, ns(at_s)
        )
        return {session.session_id: reason for session, reason in gone}


def test_robots_that_are_present_keep_their_sessions():
    expiry = Expiry()
    assert [expiry.expired(at_s) for at_s in (0, 1, IDLE_S - 1)] == [{}, {}, {}]


def test_a_robot_that_is_gone_for_the_grace_period_loses_its_session():
    expiry = Expiry()
    expiry.expired(5)
    expiry.absent = {"a"}
    assert expiry.expired(6) == {}
    assert expiry.expired(14.9) == {}
    assert expiry.expired(15) == {"a": "its robot has been gone for 10 s"}


def test_a_short_absence_is_forgotten():
    expiry = Expiry()
    expiry.absent = {"a"}
    expiry.expired(0)
    expiry.absent = set()
    expiry.expired(9)
    expiry.absent = {"a"}
    assert expiry.expired(18) == {}
    assert list(expiry.expired(19)) == ["a"]


def test_the_grace_period_of_an_undiscovered_robot_begins_when_its_session_opens():
    """Discovery may find a robot's endpoints after its call."""
    expiry = Expiry()
    expiry.absent = {"a"}
    assert expiry.expired(0) == {}
    assert expiry.expired(9.9) == {}
    assert list(expiry.expired(10)) == ["a"]


def test_a_robot_that_sends_no_requests_loses_its_session_after_the_timeout():
    expiry = Expiry()
    expiry.sessions[1].note_request("b", ns(100))
    assert expiry.expired(IDLE_S - 1) == {}
    assert expiry.expired(IDLE_S) == {"a": "no request for 300 s"}
    assert sorted(expiry.expired(100 + IDLE_S)) == ["a", "b"]


def test_a_robot_that_asks_another_server_loses_its_session_here():
    expiry = Expiry()
    for at_s in (1, 2, 3):  # time to hear whether it keeps the session
        expiry.sessions[0].note_request("elsewhere", ns(at_s))
        assert expiry.expired(at_s) == {}
    expiry.sessions[0].note_request("elsewhere", ns(4))
    assert expiry.expired(4) == {"a": "its robot has named another session in 4 requests in a row"}


def test_a_robot_whose_requests_are_too_large_in_a_row_loses_its_session():
    """Whatever becomes of them: taking them in costs the others time."""
    expiry = Expiry()
    for size_bytes in (101, 101, 100, 101, 101):
        expiry.sessions[0].note_size(size_bytes, 100)
    assert expiry.expired(1) == {}
    expiry.sessions[0].note_size(101, 100)
    reason = "its robot has sent 3 requests in a row that are larger than max_request_bytes"
    assert expiry.expired(1) == {"a": reason}


def test_old_requests_that_arrive_after_a_session_opened_do_not_end_it():
    """A robot abandons its request when it opens another session; the new server may still receive it."""
    expiry = Expiry()
    for at_s in range(10):
        for session_id in ("before", "before", "a"):
            expiry.sessions[0].note_request(session_id, ns(at_s))
        assert expiry.expired(at_s) == {}


def test_what_others_send_on_a_robot_s_topic_ends_no_session_whose_robot_asks():
    expiry = Expiry()
    for tick in range(200):
        expiry.sessions[0].note_request("a" if tick % 20 == 0 else "elsewhere", ns(0.1 * tick))
        assert expiry.expired(0.1 * tick) == {}


def test_requests_for_another_server_do_not_keep_a_session():
    expiry = Expiry()
    expiry.sessions[0].note_request("elsewhere", ns(IDLE_S - 1))
    assert "no request for 300 s" in expiry.expired(IDLE_S)["a"]


def test_a_request_that_waits_for_a_busy_worker_keeps_a_session():
    expiry = Expiry()
    expiry.sessions[0].mailbox.put(b"", ns(IDLE_S - 1))
    assert list(expiry.expired(IDLE_S)) == ["b"]


def test_a_session_that_its_robot_keeps_while_it_uses_another_one_ends_with_the_robot_alone():
    expiry = Expiry()
    session = expiry.sessions[0]
    session.link = SimpleNamespace(kept={"a"})
    for at_s in (1, 2, 3, 4):
        session.note_request("elsewhere", ns(at_s))
    assert expiry.expired(4) == {}
    assert list(expiry.expired(2 * IDLE_S)) == ["b"]
    expiry.absent = {"a"}
    assert "a" in expiry.expired(3 * IDLE_S)
    session.link = SimpleNamespace(kept=())
    expiry.absent = set()
    assert "a" not in expiry.expired(3 * IDLE_S + 1), "it has time to ask again"
    for at_s in (2, 3, 4, 5):
        session.note_request("elsewhere", ns(3 * IDLE_S + at_s))
        ended = expiry.expired(3 * IDLE_S + at_s)
    assert ended["a"].startswith("its robot has named another session")
