# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A fleet in real time for fleet.py: routers, servers and robots in processes, of which some are killed."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np
from capacity_rig import Usage
from fleet_robot import Record, servers_of
from fleet_robot_process import run_robots
from fleet_server import Serving
from fleet_server_process import ServerTimes, run_server
from fleet_virtual import Times
from fleet_zenoh import Link, make_keys, routers

START_TIMEOUT_S = 300.0  # of a process: hundreds of TLS sessions on a busy machine
ROBOTS_EACH = 75  # robots of a process


@dataclass(frozen=True)
class Script:
    """What happens when [s]: all are admitted, the steady span, a server's death, a router's death."""

    span_s: float = 30.0
    settle_s: float = 15.0
    kills: bool = True


@dataclass
class Run:
    """What a run of the script gave. Instants are monotonic [ns] or virtual."""

    records: list[Record]
    settled_ns: int
    server_killed_ns: int
    router_killed_ns: int
    end_ns: int
    routers_cpu_s: float = 0.0  # of both, in the steady span
    servers_cpu_s: float = 0.0  # of all, in the steady span
    robots_cpu_s: float = 0.0
    idle: float = 1.0  # of the machine's cores, in the steady span
    times: Times | None = None
    warm_up_s: float = 0.0  # of one request, by the servers' warm-up


class _Child:
    """A process with a pipe."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=target, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()

    def receive(self) -> Any:
        if not self.pipe.poll(START_TIMEOUT_S):
            raise SystemExit(f"{self.process.name}: silent for {START_TIMEOUT_S:g} s")
        return self.pipe.recv()

    def end(self) -> Any:
        """Tell the process to end; return what it reports."""
        self.pipe.send(None)
        report = self.receive()
        self.process.join(START_TIMEOUT_S)
        return report


@contextmanager
def children() -> Iterator[list[_Child]]:
    started: list[_Child] = []
    try:
        yield started
    finally:
        for child in started:
            child.process.kill()


@dataclass(frozen=True)
class Deployment:
    """Who there is. listed: the servers of each robot."""

    names: Sequence[str]
    listed: Sequence[tuple[str, ...]]
    serving: Serving
    script: Script


def play(robots: int, servers: int, serving: Serving, script: Script, *, tls: bool) -> Run:
    """Run the script in real time."""
    names = [f"/server_{index}" for index in range(servers)]
    listed = [servers_of(index, names) for index in range(robots)]
    deployment = Deployment(names, listed, serving, script)
    with tempfile.TemporaryDirectory(prefix="fleet_") as folder:
        keys = Path(folder, "fleet") if tls else None
        if keys:
            make_keys(keys, names, listed)
        with routers(keys) as (link, hubs), children() as started:
            return _play(deployment, link, hubs, started)


def _play(deployment: Deployment, link: Link, hubs: Sequence[Popen[Any]], started: list[_Child]) -> Run:
    script, serving = deployment.script, deployment.serving
    for index, name in enumerate(deployment.names):
        started.append(_Child(run_server, name, link, index % len(hubs), serving.document()))
    servers = tuple(started)
    for child in servers:
        child.receive()
    numbered = list(enumerate(deployment.listed))
    shares = [numbered[first : first + ROBOTS_EACH] for first in range(0, len(numbered), ROBOTS_EACH)]
    for share in shares:
        started.append(_Child(run_robots, link, share))  # noqa: PERF401  a child that has started is ended
    groups = tuple(started[len(servers) :])
    for child in groups:
        child.receive()
    for child in groups:
        child.pipe.send(None)
    time.sleep(script.settle_s)
    settled_ns = time.monotonic_ns()
    pids = [[hub.pid for hub in hubs], *([c.process.pid for c in some] for some in (servers, groups))]
    before = [_cpu_s(some) for some in pids]
    idle_before = _idle_s()
    time.sleep(script.span_s)
    used = [_cpu_s(some) - earlier for some, earlier in zip(pids, before, strict=True)]
    idle_s, cores = _idle_s()[0] - idle_before[0], _idle_s()[1]
    server_killed_ns = time.monotonic_ns()
    if script.kills:
        servers[0].process.kill()
        time.sleep(script.span_s)
    router_killed_ns = time.monotonic_ns()
    if script.kills:
        hubs[0].kill()
        time.sleep(script.span_s)
    end_ns = time.monotonic_ns()
    reports = [child.end() for child in groups]
    measured = [child.end() for child in servers[1 if script.kills else 0 :]]
    records = [record for report in reports for record in report]
    run = Run(
        records,
        settled_ns,
        server_killed_ns,
        router_killed_ns,
        end_ns,
        routers_cpu_s=used[0],
        servers_cpu_s=used[1],
        robots_cpu_s=used[2],
        idle=idle_s / (script.span_s * cores),
        warm_up_s=float(np.median([times.request_s for times in measured])),
    )
    run.times = find_times(run, measured, serving)
    return run


def find_times(run: Run, measured: Sequence[ServerTimes], serving: Serving) -> Times:
    """Return the durations that the virtual world draws from."""
    steady = [
        one
        for record in run.records
        for one in record.answers
        if run.settled_ns <= one[0] < run.server_killed_ns
    ]
    # What the device's sleep takes beyond its time is the machine's, as all that is not the device's.
    prepare_s = [
        max(0.0, took_s - serving.device.of(batch)) / batch
        for times in measured
        for batch, took_s in times.inference
        if batch
    ]
    hop_s = [max(0.0, took_ns / 1e9 - (wait + work) / 1e3) / 2 for _, took_ns, wait, work, _ in steady]
    relink_s = [
        (min(after) - run.router_killed_ns) / 1e9
        for record in run.records
        if (after := [at_ns for at_ns, _ in record.opened if at_ns > run.router_killed_ns])
    ]
    return Times(
        prepare_s=prepare_s or Times.prepare_s,
        send_s=[s for times in measured for s in times.send_s] or Times.send_s,
        hop_s=hop_s or Times.hop_s,
        call_s=[s for times in measured for s in times.call_s] or Times.call_s,
        relink_s=relink_s or Times.relink_s,
    )


def _cpu_s(pids: Sequence[int | None]) -> float:
    return sum(Usage.of(pid).cpu_s for pid in pids if pid is not None)


def _idle_s() -> tuple[float, int]:
    """Return the idle time of the machine's cores so far [s], and their number."""
    lines = Path("/proc/stat").read_text().splitlines()
    cores = sum(line.startswith("cpu") for line in lines) - 1
    return int(lines[0].split()[4]) / os.sysconf("SC_CLK_TCK"), cores
