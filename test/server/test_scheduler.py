# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Sessions get equal shares of time, none starves, and batches wait for further requests."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.schedulers import AHEAD_NS, Deadline, MicroBatch, RoundRobin, Scheduler
from remote_inference.server.sessions import Session
from remote_inference.server.warmup import make_scheduler
from support.builders import ShiftProcessors, make_offer

MAX_BATCH = 4
WINDOW_NS = 5_000_000


def make_sessions(count: int, arrival_ns: int = 0) -> list[Session]:
    """Return sessions with a waiting request each."""
    sessions = [Session(f"s{index}", make_offer(), ShiftProcessors()) for index in range(count)]
    for session in sessions:
        session.mailbox.put(b"", arrival_ns)
    return sessions


def select(scheduler: Scheduler, ready: list[Session], open_sessions: int | None = None, now_ns: int = 0):
    """Return the batch; by default only the ready sessions are open."""
    return list(scheduler.select(ready, len(ready) if open_sessions is None else open_sessions, now_ns).batch)


ONE_BY_ONE = {"round_robin": RoundRobin, "batches of one": lambda: MicroBatch(1, 0), "deadline": Deadline}


@pytest.fixture(params=ONE_BY_ONE.values(), ids=ONE_BY_ONE)
def scheduler(request: pytest.FixtureRequest) -> Scheduler:
    return request.param()


def test_nothing_waiting_gives_nothing(scheduler: Scheduler):
    assert select(scheduler, []) == []


def test_it_serves_one_session_at_a_time(scheduler: Scheduler):
    assert len(select(scheduler, make_sessions(3))) == 1


@pytest.mark.parametrize("count", [1, 2, 5, 16])
def test_equal_demand_gets_equal_shares(scheduler: Scheduler, count: int):
    sessions = make_sessions(count)
    served = Counter(select(scheduler, sessions)[0].session_id for _ in range(10 * count))
    assert served == dict.fromkeys((session.session_id for session in sessions), 10)


def test_each_waiting_session_is_served_once_per_cycle(scheduler: Scheduler):
    sessions = make_sessions(4)
    for _ in range(5):
        cycle = {select(scheduler, sessions)[0].session_id for _ in range(4)}
        assert len(cycle) == 4


def test_an_idle_session_gains_no_credit(scheduler: Scheduler):
    """Otherwise a robot that resumes would shut the others out for as long as it had paused."""
    busy, idle = make_sessions(2)
    select(scheduler, [idle])
    for _ in range(100):
        select(scheduler, [busy])
    served = [select(scheduler, [busy, idle])[0].session_id for _ in range(6)]
    assert served == ["s1", "s0"] * 3


@given(st.lists(st.sets(st.integers(1, 5)), min_size=30, max_size=60))
def test_no_session_starves_among_greedy_ones(demand: list[set[int]]):
    """Session 0 always waits, the others at any time: each of the others goes first at most once."""
    scheduler, sessions = RoundRobin(), make_sessions(6)
    waited = 0
    for others in demand:
        (chosen,) = select(scheduler, [sessions[index] for index in sorted({0} | others)])
        waited = 0 if chosen is sessions[0] else waited + 1
        assert waited <= 5


def test_a_robot_that_reopens_its_session_each_time_does_not_shut_the_others_out(scheduler: Scheduler):
    (steady,) = make_sessions(1)
    select(scheduler, [steady])
    served = []
    for index in range(10):
        latest = Session(f"new{index}", make_offer(), ShiftProcessors())
        latest.mailbox.put(b"", 0)
        served.append(select(scheduler, [steady, latest])[0].session_id)
    assert served.count("s0") >= 3


def test_a_full_batch_goes_at_once_with_the_sessions_served_longest_ago():
    scheduler, sessions = MicroBatch(MAX_BATCH, WINDOW_NS), make_sessions(6)
    assert [session.session_id for session in select(scheduler, sessions)] == ["s0", "s1", "s2", "s3"]
    assert [session.session_id for session in select(scheduler, sessions)] == ["s4", "s5", "s0", "s1"]


def test_a_request_waits_for_others_no_longer_than_the_window():
    scheduler, sessions = MicroBatch(MAX_BATCH, WINDOW_NS), make_sessions(2, arrival_ns=1_000_000)
    early = scheduler.select(sessions, 3, 2_000_000)
    assert list(early.batch) == []
    assert early.wait_ns == WINDOW_NS - 1_000_000
    assert len(select(scheduler, sessions, 3, now_ns=1_000_000 + WINDOW_NS)) == 2


def test_the_window_counts_from_the_oldest_request():
    scheduler, sessions = MicroBatch(MAX_BATCH, WINDOW_NS), make_sessions(2)
    sessions[1].mailbox.put(b"", WINDOW_NS - 1)
    assert len(select(scheduler, sessions, 3, now_ns=WINDOW_NS)) == 2


def test_newer_requests_of_a_session_do_not_extend_the_window():
    scheduler, (session,) = MicroBatch(MAX_BATCH, WINDOW_NS), make_sessions(1)
    for now_ns in range(0, WINDOW_NS, WINDOW_NS // 10):
        session.mailbox.put(b"", now_ns)
        assert scheduler.select([session], 2, now_ns).wait_ns == WINDOW_NS - now_ns
    assert select(scheduler, [session], 2, now_ns=WINDOW_NS) == [session]


def test_a_batch_does_not_wait_for_more_requests_than_open_sessions():
    scheduler = MicroBatch(MAX_BATCH, WINDOW_NS)
    assert len(select(scheduler, make_sessions(1), open_sessions=1)) == 1
    assert len(select(scheduler, make_sessions(3), open_sessions=3)) == 3


def test_without_requests_the_worker_waits_for_the_next_one():
    assert MicroBatch(MAX_BATCH, WINDOW_NS).select([], 3, 0).wait_ns == 0


@given(st.lists(st.sets(st.integers(1, 9)), min_size=20, max_size=40))
def test_no_session_starves_in_batches(demand: list[set[int]]):
    scheduler, sessions = MicroBatch(MAX_BATCH, WINDOW_NS), make_sessions(10)
    waited = 0
    for others in demand:
        batch = select(scheduler, [sessions[index] for index in sorted({0} | others)])
        waited = 0 if sessions[0] in batch else waited + 1
        assert waited <= 2  # ten sessions in batches of four


MS = 1_000_000


def serve(scheduler: Scheduler, ready: list[Session], cost_ns: dict[str, int]) -> list[Session]:
    """Let the next sessions have their turn, and charge what their requests cost."""
    batch = select(scheduler, ready)
    for session in batch:
        session.account.charge(cost_ns[session.session_id])
    return batch


@pytest.mark.parametrize("scheduler", [RoundRobin(), MicroBatch(1, 0)])
def test_a_session_gets_as_many_turns_as_its_requests_are_cheap(scheduler: Scheduler):
    sessions = make_sessions(3)
    cost_ns = {"s0": MS, "s1": MS, "s2": 10 * MS}
    served = Counter(serve(scheduler, sessions, cost_ns)[0].session_id for _ in range(210))
    assert served == {"s0": 100, "s1": 100, "s2": 10}


def test_a_batch_leaves_out_the_expensive_session_while_cheap_ones_wait():
    scheduler, sessions = MicroBatch(2, 0), make_sessions(3)
    cost_ns = {"s0": MS, "s1": MS, "s2": 10 * MS}
    served = Counter(
        session.session_id for _ in range(105) for session in serve(scheduler, sessions, cost_ns)
    )
    assert served["s2"] <= 12
    assert served["s0"] + served["s1"] >= 198


def test_an_expensive_session_is_served_each_time_when_nobody_else_waits_for_the_turn():
    """And it owes nothing for it later, beyond its last request."""
    scheduler, (cheap, dear, late) = MicroBatch(2, 0), make_sessions(3)
    cost_ns = {"s0": MS, "s1": 10 * MS, "s2": MS}
    for _ in range(100):
        assert len(serve(scheduler, [cheap, dear], cost_ns)) == 2
    waited = 0
    while dear not in serve(scheduler, [cheap, dear, late], cost_ns):
        waited += 1
    assert waited <= 10


def test_an_expensive_robot_that_reopens_its_session_each_time_gets_one_turn_in_two(scheduler: Scheduler):
    (steady,) = make_sessions(1)
    served = Counter()
    latest = steady
    for index in range(20):
        if latest.account.virtual_ns or latest is steady:  # it has been served
            latest = Session(f"new{index}", make_offer(), ShiftProcessors())
            latest.mailbox.put(b"", 0)
        (chosen,) = select(scheduler, [steady, latest])
        chosen.account.charge(MS if chosen is steady else 100 * MS)
        served[chosen is steady] += 1
    assert served[True] >= 9


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[set[int]], list[list[int]]]:
    """Draw which of five sessions wait at each turn, and what a request of each costs there."""
    turns = draw(st.integers(1, 40))
    demand = st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=turns, max_size=turns)
    costs = st.lists(st.lists(st.integers(0, 1_000), min_size=5, max_size=5), min_size=turns, max_size=turns)
    return draw(demand), draw(costs)


def given_times(scheduler: Scheduler, demand: list[set[int]], costs: list[list[int]]) -> list[list[int]]:
    """Return the time that each session gets at each turn; 0 where it is not served."""
    sessions = make_sessions(5)
    times = []
    for waiting, cost in zip(demand, costs, strict=True):
        batch = select(scheduler, [sessions[index] for index in sorted(waiting)])
        served = {session.session_id for session in batch}
        times.append([cost[index] if f"s{index}" in served else 0 for index in range(5)])
        for session in batch:
            session.account.charge(cost[int(session.session_id[1:])])
    return times


def spans(holds: list[bool]) -> list[range]:
    """Return the longest runs of turns at which something holds."""
    runs = []
    for does_hold, run in itertools.groupby(range(len(holds)), holds.__getitem__):
        turns = list(run)
        if does_hold:
            runs.append(range(turns[0], turns[-1] + 1))
    return runs


@given(worlds())
@settings(max_examples=300)
def test_the_times_of_two_waiting_sessions_differ_by_one_request_of_each(
    world: tuple[list[set[int]], list[list[int]]],
):
    """In every stretch of time, whatever the requests cost and whoever else comes and goes."""
    demand, costs = world
    for scheduler in (RoundRobin(), MicroBatch(1, 0)):
        times = given_times(scheduler, demand, costs)
        most = [max(time[index] for time in times) for index in range(5)]
        for one, other in itertools.combinations(range(5), 2):
            for span in spans([{one, other} <= waiting for waiting in demand]):
                leads = [0, *itertools.accumulate(times[turn][one] - times[turn][other] for turn in span)]
                assert max(leads) - min(leads) <= most[one] + most[other]


@given(worlds(), st.integers(1, 4))
@settings(max_examples=300)
def test_while_a_session_waits_for_a_batch_no_other_gets_more_than_one_request_of_each(
    world: tuple[list[set[int]], list[list[int]]], max_batch: int
):
    demand, costs = world
    scheduler = MicroBatch(max_batch, 0)
    sessions = make_sessions(5)
    got = {(one, other): 0 for one in range(5) for other in range(5)}  # while `one` waits in vain
    most = [max(cost[index] for cost in costs) for index in range(5)]
    for waiting, cost in zip(demand, costs, strict=True):
        batch = select(scheduler, [sessions[index] for index in sorted(waiting)])
        served = {int(session.session_id[1:]) for session in batch}
        for (one, other), time in got.items():
            waits = one in waiting and one not in served
            got[one, other] = time + cost[other] * (other in served) if waits else 0
            assert got[one, other] <= most[one] + most[other]
        for session in batch:
            session.account.charge(cost[int(session.session_id[1:])])


@pytest.mark.parametrize(
    ("changes", "limit", "kind", "size"),
    [
        ({}, 16, RoundRobin, 1),
        ({"scheduler": "micro_batch", "max_batch": 3}, 16, MicroBatch, 3),
        ({"scheduler": "micro_batch", "max_batch": 99}, 4, MicroBatch, 4),
    ],
)
def test_the_manifest_names_the_scheduler_and_the_policy_bounds_its_batches(
    changes: dict, limit: int, kind: type, size: int
):
    manifest = Manifest.model_validate({"model": {"backend": "hold", "path": "x"}, **changes})
    scheduler = make_scheduler(manifest, limit)
    assert isinstance(scheduler, kind)
    assert len(select(scheduler, make_sessions(20))) == size


# -- by deadline ---------------------------------------------------------------------------------------------

MILLISECOND_NS = 1_000_000


def with_queues(*queues_s: float) -> list[Session]:
    """Return sessions whose robots' queues last so long."""
    sessions = make_sessions(len(queues_s))
    for session, queue_s in zip(sessions, queues_s, strict=True):
        session.mailbox.put(b"", 0, queue_s)
    return sessions


def names(sessions: list[Session]) -> list[str]:
    return [session.session_id for session in sessions]


def test_the_robot_comes_first_whose_queue_ends_soonest():
    sessions = with_queues(1.0, 0.0, 0.2, -1.0)
    order = []
    scheduler = Deadline()
    while sessions:
        order += select(scheduler, sessions)
        sessions.remove(order[-1])
    assert names(order) == ["s1", "s2", "s3", "s0"], "what a client does not say counts as half a second"


def test_urgency_gets_no_robot_more_than_its_share_of_a_busy_server():
    """One that always says it has run out waits for the others once it has cost a second more than they."""
    sessions, scheduler = with_queues(0.0, 5.0, 5.0), Deadline()
    cost_ns, served = 50 * MILLISECOND_NS, Counter[str]()
    for _ in range(200):
        (chosen,) = select(scheduler, sessions)
        chosen.account.charge(cost_ns)
        served[chosen.session_id] += 1
    assert served["s0"] - served["s1"] <= AHEAD_NS / cost_ns + 1
    assert abs(served["s1"] - served["s2"]) <= 1


def test_a_session_that_waits_for_more_urgent_ones_forfeits_nothing():
    urgent, calm = with_queues(0.0, 5.0)
    scheduler = Deadline()
    select(scheduler, [calm])
    for _ in range(10):
        select(scheduler, [urgent, calm])[0].account.charge(50 * MILLISECOND_NS)
    assert calm.account.virtual_ns == 0


def test_a_batch_is_no_larger_than_the_most_urgent_robot_has_time_for():
    scheduler = Deadline(max_batch=4)
    for size in range(1, 5):
        scheduler.note_call(size, size * 100 * MILLISECOND_NS)
    assert len(select(scheduler, with_queues(*4 * [0.25]))) == 2
    assert len(select(scheduler, with_queues(*4 * [9.0]))) == 4
    assert len(select(scheduler, with_queues(*4 * [0.05]))) == 4, "late already: the sooner all are served"


def test_a_batch_waits_for_others_where_there_is_time():
    scheduler = Deadline(max_batch=4, window_ns=WINDOW_NS)
    scheduler.note_call(4, 100 * MILLISECOND_NS)
    assert scheduler.select(with_queues(9.0), 4, 0).wait_ns == WINDOW_NS
    assert len(scheduler.select(with_queues(0.1), 4, 0).batch) == 1
