# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Round robin: equal demand gets equal shares, and nobody starves whatever the others ask for."""

from __future__ import annotations

from collections import Counter

import pytest
from builders import ShiftProcessors, make_offer
from hypothesis import given
from hypothesis import strategies as st

from remote_inference.core.server.scheduler import RoundRobin
from remote_inference.core.server.session import Session


def make_sessions(count: int) -> list[Session]:
    return [Session(f"s{index}", make_offer(), ShiftProcessors()) for index in range(count)]


def test_nothing_waiting_gives_nothing():
    assert list(RoundRobin().select([])) == []


def test_it_serves_one_session_at_a_time():
    assert len(RoundRobin().select(make_sessions(3))) == 1


@pytest.mark.parametrize("count", [1, 2, 5, 16])
def test_equal_demand_gets_equal_shares(count: int):
    scheduler, sessions = RoundRobin(), make_sessions(count)
    served = Counter(scheduler.select(sessions)[0].session_id for _ in range(10 * count))
    assert served == dict.fromkeys((session.session_id for session in sessions), 10)


def test_each_waiting_session_is_served_once_per_cycle():
    scheduler, sessions = RoundRobin(), make_sessions(4)
    for _ in range(5):
        cycle = {scheduler.select(sessions)[0].session_id for _ in range(4)}
        assert len(cycle) == 4


def test_a_session_that_was_idle_has_no_debt_to_collect():
    """Otherwise a robot that comes back from a pause would shut the others out for as long."""
    scheduler, (busy, idle) = RoundRobin(), make_sessions(2)
    scheduler.select([idle])
    for _ in range(100):
        scheduler.select([busy])
    served = [scheduler.select([busy, idle])[0].session_id for _ in range(6)]
    assert served == ["s1", "s0"] * 3


@given(st.lists(st.sets(st.integers(1, 5)), min_size=30, max_size=60))
def test_nobody_starves_under_greedy_sessions(demand: list[set[int]]):
    """Session 0 waits all the time, the others as they please: at most all of them go first."""
    scheduler, sessions = RoundRobin(), make_sessions(6)
    waited = 0
    for others in demand:
        (chosen,) = scheduler.select([sessions[index] for index in sorted({0} | others)])
        waited = 0 if chosen is sessions[0] else waited + 1
        assert waited <= 5


def test_a_robot_that_reopens_its_session_each_time_does_not_shut_the_others_out():
    scheduler, (steady,) = RoundRobin(), make_sessions(1)
    scheduler.select([steady])
    served = []
    for index in range(10):
        newcomer = Session(f"new{index}", make_offer(), ShiftProcessors())
        served.append(scheduler.select([steady, newcomer])[0].session_id)
    assert served.count("s0") >= 3
