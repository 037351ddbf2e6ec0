# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The script of fleet.py in virtual time, and what one server answers at most beside the formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from fleet_figures import Readmission, Span, answers_per_second, readmission, span
from fleet_plan import Cost, robots_per_server, servers_for
from fleet_robot import BUFFER_S, LISTED, RATE_HZ, Record
from fleet_server import DeviceTime, Serving
from fleet_virtual import Times, World

OVERLOAD = 1.5  # robots on one server, as a multiple of what it can answer
OVERLOAD_SETTLE_S = 10.0
# One request after the other, small batches of a slow policy, full batches of a fast one.
POLICIES = (
    Serving(10_000, "round_robin", 1, device=DeviceTime(call_ms=40.0)),
    Serving(10_000, "micro_batch", 4, device=DeviceTime(call_ms=80.0, request_ms=5.0)),
    Serving(10_000, "micro_batch", 8, device=DeviceTime(call_ms=30.0, request_ms=3.0)),
)


@dataclass(frozen=True)
class Played:
    """One run of the script, real or virtual."""

    kind: str
    robots: int
    servers: int
    steady: Span
    server_dead: Span
    router_dead: Span
    from_server: Readmission
    from_router: Readmission
    refused: int
    answers_per_s: tuple[int, ...]


@dataclass(frozen=True)
class Machine:
    """What a real run cost this machine, per request in the steady span [ms of CPU]."""

    routers_ms: float
    servers_ms: float
    robots_ms: float
    idle: float  # of its cores
    load_before: float


@dataclass(frozen=True)
class Capacity:
    """What one server answered beside what the formula says [1/s]."""

    kind: str
    scheduler: str
    batch: int
    call_ms: float
    request_ms: float
    prepare_ms: float
    robots: int
    predicted_per_s: float
    answered_per_s: float
    planned: int  # robots that the formula puts on the server
    planned_of_asked: float  # answers of asked with so many
    planned_p99_ms: float

    @property
    def error(self) -> float:
        return self.predicted_per_s / self.answered_per_s - 1.0


def summarise(
    kind: str, servers: int, records: Sequence[Record], instants_ns: tuple[int, int, int, int]
) -> Played:
    """instants_ns: when all are settled, when server and router are killed, and the end."""
    settled_ns, server_ns, router_ns, end_ns = instants_ns
    return Played(
        kind,
        len(records),
        servers,
        span(records, settled_ns, server_ns),
        span(records, server_ns, router_ns),
        span(records, router_ns, end_ns),
        readmission(records, server_ns, router_ns, "/server_0"),
        readmission(records, router_ns, end_ns),
        sum(record.refused for record in records),
        tuple(answers_per_second(records, settled_ns, end_ns)),
    )


def play_virtually(
    robots: int, serving: Serving, times: Times, span_s: float, settle_s: float = 6.0
) -> Played:
    """Run the script in virtual time, with as many servers as the plan says."""
    servers = servers_for(robots, serving.max_sessions, LISTED)
    world = World(robots, servers, serving, times)
    world.run(settle_s)
    instants = [world.now_ns]
    for fail in (lambda: None, lambda: world.kill_server("/server_0"), lambda: world.kill_router(0)):
        fail()
        world.run(span_s)
        instants.append(world.now_ns)
    records = [robot.record for robot in world.robots]
    return summarise("virtual", servers, records, (instants[0], instants[1], instants[2], instants[3]))


def find_cost(serving: Serving, times: Times) -> Cost:
    """Return what a request costs a server with such a policy, by the measured means."""
    batch = serving.max_batch if serving.scheduler == "micro_batch" else 1
    prepare_s = fmean(times.prepare_s) + fmean(times.send_s)
    return Cost(prepare_s, serving.device.call_ms / 1e3, serving.device.request_ms / 1e3, batch)


def measure_capacity(serving: Serving, times: Times, seconds: float) -> Capacity:
    """Let more robots ask one virtual server than it can answer, and then as many as planned."""
    cost = find_cost(serving, times)
    planned = robots_per_server(cost, RATE_HZ, BUFFER_S, 2 * fmean(times.hop_s))
    robots = round(OVERLOAD * cost.most_per_s / RATE_HZ)
    flooded, calm = (_ask_one_server(count, serving, times, seconds) for count in (robots, max(1, planned)))
    return Capacity(
        "virtual",
        serving.scheduler,
        cost.batch,
        serving.device.call_ms,
        serving.device.request_ms,
        1e3 * cost.prepare_s,
        robots,
        cost.most_per_s,
        flooded.answered / flooded.seconds,
        planned,
        calm.of_asked,
        calm.round_trip_p99_ms,
    )


def _ask_one_server(robots: int, serving: Serving, times: Times, seconds: float) -> Span:
    world = World(robots, 1, serving, times)
    world.run(OVERLOAD_SETTLE_S)
    begin_ns = world.now_ns
    world.run(seconds)
    return span([robot.record for robot in world.robots], begin_ns, world.now_ns)
