# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Who may end or reset a session: the robot that holds its token, which nothing but the reply shows."""

from __future__ import annotations

import pytest

from remote_inference.server.sessions import Session, SessionRegistry
from support.builders import ShiftProcessors, make_offer, make_spec, make_terms
from support.server.bench import Bench


def make_registry(**session: str) -> SessionRegistry:
    registry = SessionRegistry("server")
    registry.add(Session("s1", make_offer(), ShiftProcessors(), **session))
    return registry


def test_the_owner_may_act_on_its_session() -> None:
    assert make_registry(token="secret").find_claim_problem("s1", "secret") == ""


@pytest.mark.parametrize(
    ("session_id", "token", "expected"),
    [
        ("s2", "secret", "session 's2' is not open"),
        ("s1", "guess", "session_token: found one that is not of session 's1', expected the one that"),
        ("s1", "", "session_token: found none, expected the one that open_session gave for session 's1'"),
    ],
)
def test_nobody_else_may_and_hears_why(session_id: str, token: str, expected: str) -> None:
    problem = make_registry(token="secret").find_claim_problem(session_id, token)
    assert problem.startswith(expected)
    assert "secret" not in problem


def test_every_session_has_a_token_of_its_own() -> None:
    tokens = {Session("s1", make_offer(), ShiftProcessors()).token for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) >= 32 for token in tokens)


def test_what_is_logged_of_a_session_shows_no_token() -> None:
    session = Session("s1", make_offer(), ShiftProcessors(), token="secret")
    reply = make_registry().reply(make_offer(), make_spec(), make_terms())
    assert "secret" not in repr(session)
    assert "token" not in repr(reply)


def test_a_request_of_an_episode_that_a_reset_has_ended_is_not_served() -> None:
    bench = Bench(robots=1)
    (session,) = bench.sessions
    bench.put(0, episode_id=3)
    session.end_episodes_before(4)
    assert bench.serve() == []
    assert "episode 3" in bench.records[-1].outcome
    assert session.processors.resets == 0


def test_the_first_request_of_the_new_episode_may_arrive_before_the_reset_itself() -> None:
    bench = Bench(robots=1)
    bench.put(0, episode_id=4)
    bench.sessions[0].end_episodes_before(4)
    assert [chunk.episode_id for chunk in bench.serve()] == [4]


def test_a_reset_that_arrives_late_does_not_bring_an_episode_back() -> None:
    bench = Bench(robots=1)
    bench.sessions[0].end_episodes_before(5)
    bench.sessions[0].end_episodes_before(4)
    bench.put(0, episode_id=4)
    assert bench.serve() == []
