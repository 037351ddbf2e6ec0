# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The tables that fleet.py prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fleet_figures import Readmission, Span
from fleet_plan import robots_per_server, room_after_a_death, servers_for
from fleet_play import Capacity, Machine, Played, find_cost
from fleet_robot import BUFFER_S, LISTED, RATE_HZ
from fleet_server import Serving
from fleet_virtual import Times


def print_played(runs: Sequence[Played]) -> None:
    columns = "run | robots | servers | span | answers of asked | round trip p50 | p99 | per robot | Jain"
    print(f"\n| {columns} | stalled |" + "\n|---|---:|---:|---|---:|---:|---:|---|---:|---:|")
    for run in runs:
        for name in ("steady", "server_dead", "router_dead"):
            found: Span = getattr(run, name)
            print(
                f"| {run.kind} | {run.robots} | {run.servers} | {name.replace('_', ' ')} "
                f"| {found.answered} of {found.asked} | {found.round_trip_p50_ms:.0f} ms "
                f"| {found.round_trip_p99_ms:.0f} ms | {found.fewest} to {found.most} "
                f"| {found.jain:.4f} | {found.stalled} |"
            )
    print(
        "\n| run | robots | lost | their number | back | p50 | the last |\n|---|---:|---|---:|---:|---:|---:|"
    )
    for run in runs:
        for lost, name in (("server", "from_server"), ("router", "from_router")):
            back: Readmission = getattr(run, name)
            print(
                f"| {run.kind} | {run.robots} | {lost} | {back.robots} | {back.returned} "
                f"| {back.p50_s:.2f} s | {back.last_s:.2f} s |"
            )


def print_machine(machines: Mapping[str, Machine]) -> None:
    print("\n| run | routers | servers | robots | cores idle | load before |\n|---|---:|---:|---:|---:|---:|")
    for kind, used in machines.items():
        print(
            f"| {kind} | {used.routers_ms:.2f} ms | {used.servers_ms:.2f} ms | {used.robots_ms:.2f} ms "
            f"| {100 * used.idle:.0f} % | {used.load_before:.1f} |"
        )


def print_capacity(found: Sequence[Capacity]) -> None:
    head = "run | scheduler | batch | device | prepare | robots | formula | measured | error | planned"
    print(f"\n| {head} | p99 then |\n|---|---|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    for one in found:
        # In real time a server with as many robots as planned is not measured.
        planned_p99 = "" if math.isnan(one.planned_p99_ms) else f"{one.planned_p99_ms:.0f} ms"
        print(
            f"| {one.kind} | {one.scheduler} | {one.batch} | {one.call_ms:g} + {one.request_ms:g} n ms "
            f"| {one.prepare_ms:.2f} ms | {one.robots} | {one.predicted_per_s:.1f}/s "
            f"| {one.answered_per_s:.1f}/s | {100 * one.error:+.1f} % | {one.planned} "
            f"| {planned_p99} |"
        )


def print_plan(robots: int, serving: Serving, times: Times) -> None:
    held = robots_per_server(find_cost(serving, times), RATE_HZ, BUFFER_S)
    servers = servers_for(robots, serving.max_sessions, LISTED)
    room = room_after_a_death(robots, servers, serving.max_sessions, LISTED)
    print(
        f"\nThe formula: a server of this run holds {held} robots and admits {serving.max_sessions}; "
        f"{robots} robots need {servers} servers; when one dies, there is room for {room} more."
    )
