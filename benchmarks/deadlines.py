# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures who waits on a server with more robots than the capacity formula admits, by scheduler.

Run `python benchmarks/deadlines.py [--robots 1000] [--seconds 30]`. Robots and servers are the package's own,
in virtual time; the policy only takes time. Each server holds `--load` times what `warmup.capacity` says.
"""

from __future__ import annotations

import argparse
import os
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any

import numpy as np
from fleet_robot import CHUNK_ROWS, CONTROL_HZ
from fleet_server import DeviceTime, Serving
from fleet_virtual import Times, World
from rich.console import Console
from rich.progress import track

from remote_inference.server.schedulers import SCHEDULERS
from remote_inference.server.warmup import capacity
from remote_inference.tools.tables import Table, print_table

CHUNK_S = CHUNK_ROWS / CONTROL_HZ
PER_SERVER = 100
SETTLE_S = 8.0 * CHUNK_S  # a backlog grows slowly
GREEDY_ROWS = 5  # of a chunk, after which a greedy robot asks again
PREPARE_S = 0.002

METHOD = f"""\
Each robot gets chunks of {CHUNK_S:g} s and asks when a part of one is left (--left); a request takes one \
call of the policy. [italic]Held[/italic]: control ticks without an action, of all robots, and of the one \
that had most. \
[italic]even[/italic]: all are equal. [italic]greedy[/italic]: every tenth robot asks ten times as often. \
[italic]long tail[/italic]: every twentieth call takes ten times as long as the others. [italic]batches\
[/italic]: a call takes up to eight requests, half of its time for the call itself."""


@dataclass(frozen=True)
class Case:
    """What differs between the robots, or the calls."""

    batch: int = 1
    greedy_every: int = 0
    long_calls: float = 0.0  # share of the calls that take ten times as long

    def parameters(self, left: float, index: int) -> dict[str, Any]:
        greedy = self.greedy_every and index % self.greedy_every == 0
        buffer_s = CHUNK_S - GREEDY_ROWS / CONTROL_HZ if greedy else CHUNK_S * left
        return {
            "merge_mode": "replace",
            "execution_horizon": 0,
            "buffer_time_s": buffer_s,
            "max_action_age_s": 2 * CHUNK_S,
            "request_timeout_s": 2 * CHUNK_S,
        }


CASES = {
    "even": Case(),
    "greedy": Case(greedy_every=10),
    "long tail": Case(long_calls=0.05),
    "batches": Case(batch=8),
}


class LongTail(DeviceTime):
    """A policy of whose calls some take ten times as long; the mean stays."""

    share: float = 0.0

    def of(self, batch: int) -> float:
        usual_s = super().of(batch) / (1.0 + 9.0 * self.share)
        return usual_s * (10.0 if CALLS.random() < self.share else 1.0)


CALLS = random.Random(0)


@dataclass(frozen=True)
class Found:
    """What one run has shown; shares of control ticks."""

    held: float
    worst: float
    answers_per_s: float


def time_of_a_request(load: float, left: float) -> float:
    """Return the time [s] with which the formula admits `PER_SERVER / load` robots."""
    rate_hz = 1.0 / (CHUNK_S * (1.0 - left))
    admitted = PER_SERVER / load
    low, high = 1e-4, 10.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        enough = capacity(middle, rate_hz, CHUNK_ROWS, 1.0 / CONTROL_HZ, rtt_s=0.0) >= admitted
        low, high = (middle, high) if enough else (low, middle)
    return low


def play(name: str, scheduler: str, load: float, left: float, *, robots: int, seconds: float) -> Found:
    """Play one case with one scheduler."""
    case = CASES[name]
    batch = 1 if scheduler == "round_robin" else case.batch
    call_s = time_of_a_request(load, left) - PREPARE_S
    # With batches the formula counts a request's share of a full one.
    parts = {"call_ms": 1e3 * call_s} if case.batch == 1 else {}
    if case.batch > 1:
        parts = {"call_ms": 0.5e3 * call_s * case.batch, "request_ms": 0.5e3 * call_s}
    device = LongTail(share=case.long_calls, **parts)
    serving = Serving(10 * PER_SERVER, scheduler, batch, device=device)
    parameters = partial(case.parameters, left)
    world = World(robots, max(1, robots // PER_SERVER), serving, Times(), parameters=parameters)
    world.run(SETTLE_S)
    before = [(robot.record.ticks, robot.record.stalled, len(robot.record.answers)) for robot in world.robots]
    world.run(seconds)
    after = [(robot.record.ticks, robot.record.stalled, len(robot.record.answers)) for robot in world.robots]
    ticks, held, answers = (np.array(after) - np.array(before)).T
    return Found(
        held.sum() / max(1, ticks.sum()), (held / np.maximum(1, ticks)).max(), answers.sum() / seconds
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--robots", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0, help="of virtual time, after it has settled")
    parser.add_argument("--load", type=float, default=1.5, help="robots, of those that the formula admits")
    parser.add_argument("--left", type=float, default=0.2, help="part of a chunk, when a robot asks")
    parser.add_argument("--cases", nargs="+", default=tuple(CASES), choices=tuple(CASES))
    parser.add_argument("--schedulers", nargs="+", default=SCHEDULERS.names, choices=SCHEDULERS.names)
    arguments = parser.parse_args()
    rows = list(product(arguments.cases, arguments.schedulers))
    size = {"robots": arguments.robots, "seconds": arguments.seconds}
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        running = [pool.submit(play, *row, arguments.load, arguments.left, **size) for row in rows]
        found = [future.result() for future in track(running, "playing")]
    Console().print(METHOD, highlight=False)
    columns = ("case", "scheduler", "held", "worst robot", "answers/s")
    cells = [
        (
            *row,
            f"{100.0 * one.held:.2f} %",
            f"{100.0 * one.worst:.1f} %",
            f"{one.answers_per_s:.0f}",
        )
        for row, one in zip(rows, found, strict=True)
    ]
    title = f"{arguments.robots} robots at {arguments.load:g} times what the formula admits"
    print_table(Table(title, columns, cells, columns[2:]))


if __name__ == "__main__":
    main()
