# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Sessions of evaluations yield to robots: they wait while a robot does, and make room for one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from remote_inference.base.admission import judge
from remote_inference.base.exchange import SessionKind
from remote_inference.base.policy import ServingMode
from remote_inference.server.schedulers import MicroBatch
from remote_inference.server.sessions import Session, SessionRegistry
from support.builders import SteadyPolicy, make_offer, make_spec, make_terms
from support.server.bench import MS, AllAtOnce, Bench

EVALUATION = make_offer(kind=SessionKind.EVALUATION)
CALL_NS = 10 * MS


def make_bench(scheduler=None, sessions: int = 4, evaluations: int = 2) -> Bench:
    """Return a bench whose last sessions are evaluations, and whose policy takes CALL_NS for each call."""
    bench = Bench(SteadyPolicy(max_batch=sessions), scheduler, robots=sessions)
    for session in bench.sessions[sessions - evaluations :]:
        session.offer = replace(session.offer, kind=SessionKind.EVALUATION)
    bench.let_inference_take(CALL_NS)
    return bench


def served(bench: Bench) -> list[str]:
    return [chunk.session_id for chunk in bench.serve()]


def test_an_evaluation_waits_while_a_robot_waits():
    bench = make_bench()
    for index in (2, 3, 0, 1):
        bench.put(index)
    assert served(bench) == ["s0", "s1", "s2", "s3"]


def test_an_evaluation_is_served_when_no_robot_waits():
    bench = make_bench()
    bench.put(2)
    assert served(bench) == ["s2"]


def test_a_robot_shares_no_call_of_the_policy_with_an_evaluation():
    """A larger batch would take longer, and evaluations may fill it."""
    bench = make_bench(AllAtOnce())
    for index in range(4):
        bench.put(index)
    bench.serve()
    assert [record.batch_size for record in bench.records] == [2, 2, 2, 2]


def test_a_batch_does_not_wait_for_evaluations_that_could_not_join_it():
    bench = make_bench(MicroBatch(4, window_ns=1000 * MS), sessions=2, evaluations=1)
    bench.put(0)
    assert served(bench) == ["s0"]


def test_while_robots_fill_a_batch_no_evaluation_takes_the_device():
    bench = make_bench(MicroBatch(4, window_ns=5 * MS))
    bench.put(0)
    bench.put(2)
    assert served(bench) == []
    bench.now_ns += 5 * MS
    assert bench.worker.step(bench.sessions)
    assert [session.session_id for session, _ in bench.chunks] == ["s0"]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60))
def test_a_robot_waits_for_one_call_of_an_evaluation_at_most(events: list[tuple[int, bool]]):
    """Requests come in any order while the policy computes. events: who asks, and whether time passes."""
    bench = make_bench()
    calls: list[str] = []  # since the oldest robot's request that waits, whose turn it was
    answered = 0
    for index, serves in events:
        bench.put(index)
        if not serves:
            continue
        robots = [session for session in bench.sessions[:2] if session.mailbox.letter is not None]
        assert bench.worker.step(bench.sessions)
        calls = [session.session_id for session, _ in bench.chunks[answered:]]
        answered = len(bench.chunks)
        if robots:
            assert set(calls) <= {"s0", "s1"}


@pytest.mark.parametrize("scheduler", [MicroBatch(4, window_ns=0), None])
def test_an_evaluation_that_was_taken_ahead_waits_for_a_robot_that_has_opened_since(
    scheduler: MicroBatch | None,
):
    bench = Bench(SteadyPolicy(max_batch=4), robots=3, prepare=lambda task: task())
    if scheduler is not None:
        intake = bench.worker.intake
        intake._robots.scheduler, intake._yielding.scheduler = scheduler, MicroBatch(4, window_ns=0)
    calls: list[list[float]] = []
    evaluations, robot = bench.sessions[:2], bench.sessions[2]
    for session in evaluations:
        session.offer = replace(session.offer, kind=SessionKind.EVALUATION)
    healthy = bench.policy.answer

    def answer(batch):
        calls.append([float(state[0]) for state in batch])
        if len(calls) == 1:
            bench.put(1, state=(1.0, 1.0))
            bench.worker.intake.prepare(evaluations)
            bench.put(2, state=(9.0, 9.0))
            bench.worker.intake.prepare([*evaluations, robot])
        return healthy(batch)

    bench.policy.answer = answer
    bench.put(0, state=(0.0, 0.0))
    bench.worker.step(evaluations)
    while bench.worker.step([*evaluations, robot]):
        pass
    assert calls == [[0.0], [9.0], [1.0]]


def test_an_evaluation_that_waits_ahead_keeps_no_robot_from_being_taken_ahead():
    """On a server that robots keep busy it waits for long."""
    bench = Bench(SteadyPolicy(max_batch=4), robots=4, prepare=lambda task: task())
    evaluations = bench.sessions[:2]
    for session in evaluations:
        session.offer = replace(session.offer, kind=SessionKind.EVALUATION)
    asking: list[int] = [1]  # while the policy computes
    sessions, ahead = evaluations, []
    healthy = bench.policy.answer

    def answer(batch):
        for index in asking:
            bench.put(index)
        bench.worker.intake.prepare(sessions)
        ahead.append([session.session_id for session in bench.sessions if session.in_service])
        return healthy(batch)

    bench.policy.answer = answer
    bench.put(0)
    bench.worker.step(sessions)
    assert ahead == [["s0", "s1"]]
    sessions = bench.sessions
    bench.put(2)
    for index in (3, 2, 3, 2):
        asking[:] = [index]
        bench.worker.step(sessions)
    assert ahead[1:] == [["s1", "s2", "s3"]] * 4
    asking.clear()
    assert served(bench) == ["s2", "s1"]


def test_what_evaluations_cost_does_not_count_among_robots():
    """A robot that has cost more than another comes after it, also when an evaluation has cost more yet."""
    bench = make_bench(sessions=3, evaluations=1)
    for _ in range(3):
        bench.put(0)
        bench.serve()
    for _ in range(20):
        bench.put(2)
        bench.serve()
    costs = [session.account.virtual_ns for session in bench.sessions]
    assert costs[2] > costs[0]
    bench.put(1)
    bench.serve()
    assert bench.sessions[1].account.virtual_ns < costs[2]


@pytest.mark.parametrize("mode", list(ServingMode))
def test_a_robot_is_admitted_to_a_server_full_of_evaluations(mode: ServingMode):
    spec = make_spec(serving_mode=mode)
    full = make_terms(max_sessions=4).capacity(spec)
    terms = make_terms(max_sessions=4, active_sessions=full, yielding_sessions=1)
    assert judge(make_offer(), spec, terms).accepted
    assert judge(EVALUATION, spec, terms).rejection == "capacity"


def test_a_robot_is_refused_when_robots_fill_the_server():
    verdict = judge(make_offer(), make_spec(), make_terms(max_sessions=4, active_sessions=4))
    assert verdict.rejection == "capacity"


def test_the_newest_evaluation_makes_room():
    registry = SessionRegistry("server")
    for index, offer in enumerate([EVALUATION, EVALUATION, make_offer()]):
        registry.add(Session(f"s{index}", offer, SteadyPolicy().make_processors(), opened_ns=index))
    session = registry.newest_yielding()
    assert session is not None
    assert session.session_id == "s1"


def test_robots_make_no_room():
    registry = SessionRegistry("server")
    registry.add(Session("s0", make_offer(), SteadyPolicy().make_processors()))
    assert registry.newest_yielding() is None
