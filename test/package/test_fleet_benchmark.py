# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The fleet in virtual time, which `make bench-fleet` plays, and the formula that plans one."""

from __future__ import annotations

import pytest
from fleet_figures import readmission, span
from fleet_plan import Cost, robots_per_server, room_after_a_death, servers_for
from fleet_play import find_cost, measure_capacity, play_virtually
from fleet_server import DeviceTime, Serving
from fleet_virtual import Times, World
from hypothesis import given, strategies as st

from remote_inference.robot.safety.state_machine import State

TIMES = Times()


def test_every_robot_asks_once_a_second_and_is_answered():
    world = World(8, 4, Serving(), TIMES)
    world.run(5.0)
    begin_ns = world.now_ns
    world.run(10.0)
    found = span([robot.record for robot in world.robots], begin_ns, world.now_ns)
    assert (found.fewest, found.most) == (10, 10)
    assert found.answered == found.asked
    assert found.jain == 1.0


def test_the_robots_of_a_dead_server_find_room_on_servers_that_refuse_some_of_them():
    serving = Serving(max_sessions=4)
    world = World(12, servers_for(12, 4, listed=4), serving, TIMES)
    world.run(5.0)
    failed_ns = world.now_ns
    world.kill_server("/server_0")
    world.run(10.0)
    records = [robot.record for robot in world.robots]
    back = readmission(records, failed_ns, world.now_ns, "/server_0")
    assert (back.robots, back.returned) == (3, 3)
    assert sum(record.refused for record in records) > 0
    assert all(robot.server != "/server_0" for robot in world.robots)
    assert {len(server.sessions.registry) for server in world.servers.values() if server.alive} == {4}


def test_robots_without_room_anywhere_keep_looking():
    world = World(9, 2, Serving(max_sessions=4), TIMES)
    world.run(20.0)
    states = [robot.engine.machine.state for robot in world.robots]
    assert states.count(State.STREAMING) == 8
    assert states.count(State.CONNECTING) == 1


def test_robots_and_servers_come_back_when_their_router_dies():
    found = play_virtually(8, Serving(), TIMES, span_s=6.0)
    assert found.from_router.robots >= 4  # those of the router, and those whose server was linked to it
    assert found.from_router.returned == found.from_router.robots
    assert found.from_router.last_s >= TIMES.relink_s[0]


def test_a_fleet_that_its_server_kept_waiting_asks_once_for_each_answer_soon_again():
    """At nine tenths of what the server can do, each request that is asked twice keeps the others waiting."""
    spent_s = iter([*[0.02] * 600, *[0.06] * 80])  # three times as long, from the 14th to the 19th second
    world = World(44, 1, Serving(1000, "round_robin", 1, device=DeviceTime(call_ms=20.0)), TIMES)
    policy = world.servers["/server_0"].policy
    spend = policy._spend
    policy._spend = lambda seconds: spend(next(spent_s, seconds))
    world.run(24.0)
    begin_ns = world.now_ns
    world.run(10.0)
    found = span([robot.record for robot in world.robots], begin_ns, world.now_ns)
    assert found.asked <= 1.1 * found.answered


def test_two_worlds_of_one_seed_are_the_same():
    first, second = (play_virtually(6, Serving(), TIMES, span_s=4.0) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "serving",
    [
        Serving(1000, "round_robin", 1, device=DeviceTime(call_ms=100.0)),
        Serving(1000, "micro_batch", 4, device=DeviceTime(call_ms=200.0, request_ms=10.0)),
    ],
    ids=["one at a time", "batches"],
)
def test_the_formula_says_within_a_tenth_what_a_server_answers(serving: Serving):
    found = measure_capacity(serving, TIMES, seconds=10.0)
    assert abs(found.error) < 0.1
    assert found.planned_of_asked == pytest.approx(1.0, abs=0.02)


def test_a_batch_shares_the_time_of_its_call():
    serving = Serving(max_batch=8, device=DeviceTime(call_ms=80.0, request_ms=2.0))
    cost = find_cost(serving, Times(prepare_s=(0.003,), send_s=(0.001,)))
    assert cost.each_s == pytest.approx(0.004 + 0.002 + 0.080 / 8)


def test_a_server_keeps_a_fifth_free_or_answers_all_at_once_in_time():
    cost = Cost(0.01)
    assert robots_per_server(cost, rate_hz=1.0, deadline_s=10.0) == 80
    assert robots_per_server(cost, rate_hz=1.0, deadline_s=0.6) == 60
    assert robots_per_server(cost, rate_hz=1.0, deadline_s=0.6, hops_s=0.1) == 50


@given(robots=st.integers(1, 5000), per_server=st.integers(1, 200), listed=st.integers(2, 8))
def test_the_planned_servers_have_room_after_a_death_and_one_fewer_has_not(
    robots: int, per_server: int, listed: int
):
    servers = servers_for(robots, per_server, listed)
    assert room_after_a_death(robots, servers, per_server, listed) >= 0
    if servers > listed:
        assert (listed - 1) * (per_server - robots / (servers - 1)) < robots / (servers - 1)


def test_a_fleet_whose_robots_know_one_server_cannot_be_planned():
    with pytest.raises(ValueError, match="1 listed servers, expected at least 1 and 2"):
        servers_for(10, per_server=5, listed=1)
