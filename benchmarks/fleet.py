# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Plays a fleet on several servers, in real time over Zenoh and in virtual time, beside the capacity formula.

Run `python benchmarks/fleet.py [--robots 300] [--seconds 30] [--virtual 1000 3000] [--out runs/fleet]`. It
needs eclipse-zenoh. `--measured FILE` takes the real runs of an earlier `fleet.json` and repeats the rest.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from fleet_figures import span
from fleet_plan import Cost, robots_per_server, servers_for
from fleet_play import (
    OVERLOAD,
    POLICIES,
    Capacity,
    Machine,
    Played,
    find_cost,
    measure_capacity,
    play_virtually,
    summarise,
)
from fleet_plot import draw
from fleet_rig import Script, play
from fleet_robot import BUFFER_S, LISTED, RATE_HZ
from fleet_server import Serving
from fleet_tables import print_capacity, print_machine, print_plan, print_played
from fleet_virtual import Times
from pydantic import TypeAdapter

SAMPLES = 2000  # of each duration, kept in fleet.json
CAPACITY_SPAN_S = 20.0


@dataclass(frozen=True)
class Measured:
    """What the real runs gave, as fleet.json keeps it."""

    runs: list[Played]
    machines: dict[str, Machine]
    times: Times  # of the run over TCP
    capacity: Capacity


def play_really(robots: int, seconds: float, serving: Serving, *, tls: bool) -> tuple[Played, Machine, Times]:
    load = os.getloadavg()[0]
    servers = servers_for(robots, serving.max_sessions, LISTED)
    run = play(robots, servers, serving, Script(seconds), tls=tls)
    instants = (run.settled_ns, run.server_killed_ns, run.router_killed_ns, run.end_ns)
    played = summarise("TLS" if tls else "TCP", servers, run.records, instants)
    each = 1e3 / max(1, played.steady.answered)
    machine = Machine(
        run.routers_cpu_s * each, run.servers_cpu_s * each, run.robots_cpu_s * each, run.idle, load
    )
    assert run.times is not None, "a real run measures"
    return played, machine, run.times


def measure_real_capacity(serving: Serving, times: Times, seconds: float) -> Capacity:
    """Let more real robots ask one real server than it can answer; predict from its own warm-up."""
    cost = find_cost(serving, times)
    robots = round(OVERLOAD * cost.most_per_s / RATE_HZ)
    run = play(robots, 1, serving, Script(seconds, kills=False), tls=False)
    assert run.times is not None, "a real run measures"
    found = span(run.records, run.settled_ns, run.end_ns)
    batch_s = serving.device.of(cost.batch) / cost.batch
    warmed = Cost(max(0.0, run.warm_up_s - batch_s), cost.call_s, cost.request_s, cost.batch)
    return Capacity(
        "TCP",
        serving.scheduler,
        cost.batch,
        serving.device.call_ms,
        serving.device.request_ms,
        1e3 * warmed.prepare_s,
        robots,
        warmed.most_per_s,
        found.answered / found.seconds,
        robots_per_server(warmed, RATE_HZ, BUFFER_S),
        float("nan"),
        float("nan"),
    )


def measure(robots: int, seconds: float, serving: Serving) -> Measured:
    runs, machines, times = [], {}, []
    for tls in (False, True):
        played, machine, drawn = play_really(robots, seconds, serving, tls=tls)
        runs.append(played)
        machines[played.kind] = machine
        times.append(drawn)
        print_played([played])
        print_machine({played.kind: machine})
    capacity = measure_real_capacity(POLICIES[0], times[0], seconds)
    kept = Times(**{name: list(drawn[:SAMPLES]) for name, drawn in vars(times[0]).items()})
    return Measured(runs, machines, kept, capacity)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", type=int, default=300, help="in real time, and once in virtual time")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each of the three spans of a run")
    parser.add_argument("--virtual", type=int, nargs="*", default=[1000, 3000], help="robots in virtual time")
    parser.add_argument("--measured", type=Path, help="fleet.json of an earlier run: its real runs are taken")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/fleet"), help="folder of fleet.json, fleet.png"
    )
    return parser.parse_args()


def main() -> None:
    arguments, serving = parse_arguments(), Serving()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.measured:
        measured = TypeAdapter(Measured).validate_python(json.loads(arguments.measured.read_text()))
    else:
        measured = measure(arguments.robots, arguments.seconds, serving)
        (arguments.out / "fleet.json").write_text(json.dumps(asdict(measured)))
    robots, times = measured.runs[0].robots, measured.times
    runs = list(measured.runs)
    for count in (robots, *arguments.virtual):
        runs.append(play_virtually(count, serving, times, arguments.seconds))
        print(f"{count} robots played in virtual time", flush=True)
    capacities = [measured.capacity]
    capacities += [measure_capacity(policy, times, CAPACITY_SPAN_S) for policy in POLICIES]
    print_played(runs)
    print_machine(measured.machines)
    print_capacity(capacities)
    print_plan(robots, serving, times)
    draw(runs, capacities, arguments.seconds, arguments.out / "fleet.png")


if __name__ == "__main__":
    main()
