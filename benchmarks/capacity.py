# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures what one policy server serves as its sessions grow, beside a bare ping-pong and the formula.

Run `python benchmarks/capacity.py [--sessions 1 16 64] [--policies hold] [--out runs/capacity]`, with
`--rate 20` to find the most that a server answers, or with `--acceptance` to check that 64 sessions are
served alike; its exit code says so. The server is a real process; simulated robots, several to a process, do
the real exchange with JPEG images that were encoded once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import rclpy
from capacity_acceptance import accept
from capacity_plot import draw
from capacity_rig import CASE, RATE_HZ, SCHEDULERS, jain_index, run_window, serving, write_manifest
from capacity_robots import PROCESSES, Demand, Fleet, jpeg_images
from rclpy.serialization import serialize_message
from request_cycle_rig import HEIGHT, JOINTS, WIDTH, Pinger, write_deployment
from rich.console import Console

from remote_inference.base.exchange import SCHEMA_VERSION_MAX
from remote_inference.base.policy import PolicySpec
from remote_inference.msg import Observation
from remote_inference.server.manifest.manifest import load_manifest
from remote_inference.server.policies import load_policy
from remote_inference.server.requests.request_decoder import RequestDecoder, sample_batch
from remote_inference.server.warmup import Rehearsal, capacity, warm_up
from remote_inference.tools.deployment import bringup
from remote_inference.tools.tables import Table, print_table

SESSIONS = (1, 2, 4, 8, 16, 32, 64)
POLICIES = ("hold", "belt_arm")
PINGS = 50  # ping-pongs before each point
WARM_UP = 10
TIMED_REQUESTS = 50
KEPT_UP = 0.95  # share of requests answered

METHOD = f"""\
Each robot asks at a steady rate, evenly spread, with its state and {CASE.name} \
({WIDTH}x{HEIGHT}), and never before its last request was answered. The robots are plain rclpy nodes in up \
to {PROCESSES} processes on the server's machine.
[italic]Queue wait[/italic]: from arrival in the server to the worker, by the server. [italic]Round trip\
[/italic]: from publishing to the chunk, by the robot. [italic]Bare[/italic]: the p50 of a ping-pong of the \
same bytes between two plain nodes, right before, while the robots are silent.
[italic]CPU[/italic]: user and system time of the server's process per answer. [italic]Beside[/italic]: of \
it, what is neither decoding nor processing nor policy, whose time a process of its own has measured on the \
same request, one at a time; requests that share a call of the policy take less, and leave more beside. \
[italic]Memory[/italic]: its \
resident size at the window's end, and what it grew by within the window per answer.
[italic]Fairness[/italic]: Jain's index of the answers per session, 1 when all are equal."""


@dataclass(frozen=True)
class Subject:
    """What is measured. work_ms: processor time of a request's decoding, processing and policy."""

    policy: str
    scheduler: str
    work_ms: float


@dataclass(frozen=True)
class Point:
    """One number of sessions on one server."""

    policy: str
    scheduler: str
    sessions: int
    asked_per_s: float
    answered_per_s: float
    queue_wait_p50_ms: float
    queue_wait_p99_ms: float
    round_trip_p50_ms: float
    round_trip_p99_ms: float
    bare_p50_ms: float
    inference_p50_ms: float
    cpu_ms: float  # per answer
    beside_ms: float  # of cpu_ms, beside decoding, processing and policy
    memory_mb: float
    memory_growth_kb: float  # per answer
    fairness: float
    lost: int
    errors: int


@dataclass(frozen=True)
class Formula:
    """The result of `warmup.capacity` for one policy at the rate of the robots' requests."""

    policy: str
    warm_up_ms: float
    by_warm_up: int
    served_ms: float  # with decoding, from the chunks of a single session
    by_served: int


def time_warm_up(manifest: Path) -> tuple[PolicySpec, float, float]:
    """Load a manifest's policy; return its spec and two times [s].

    They are the request time that the warm-up measures, and the processor time of a robot's request.
    """
    content = load_manifest(manifest)
    policy = load_policy(content.model)
    decoder = RequestDecoder(content, policy.spec)
    samples, offer = sample_batch(policy.spec, "")
    try:
        warm_up_s = warm_up(policy, Rehearsal(policy, decoder, samples, offer), WARM_UP, time.monotonic_ns)
        images = tuple(replace(image, height=HEIGHT, width=WIDTH) for image in offer.images)
        request = make_request(len(images))
        robots = Rehearsal(policy, decoder, [request], replace(offer, images=images))
        return policy.spec, warm_up_s, processor_time(robots)
    finally:
        policy.close()


def make_request(cameras: int) -> bytes:
    """Return a serialized observation as the benchmark's robots send it."""
    state = array("f", [0.1] * len(JOINTS))
    observation = Observation(
        schema_version=SCHEMA_VERSION_MAX, episode_id=1, state=state, images=jpeg_images(cameras)
    )
    return bytes(serialize_message(observation))


def processor_time(rehearsal: Rehearsal) -> float:
    """Return what a rehearsal takes of this process's processors [s]."""
    for _ in range(WARM_UP):
        rehearsal.run()
    begin_s = time.process_time()
    for _ in range(TIMED_REQUESTS):
        rehearsal.run()
    return (time.process_time() - begin_s) / TIMED_REQUESTS


def measure(
    subject: Subject, sessions: int, seconds: float, server: tuple[int, Pinger], demand: Demand
) -> Point:
    """Measure one point."""
    pid, pinger = server
    with Fleet(sessions, demand) as fleet:
        pings = [duration_ms for _ in range(PINGS) if (duration_ms := pinger.measure()) is not None]
        records, before, after = run_window(fleet, pid, seconds)
    answers = np.array([len(record.arrival_s) for record in records])
    if not answers.any():
        raise SystemExit(f"{subject.policy}, {subject.scheduler}, {sessions} sessions: no answer")
    cpu_ms = float((after.cpu_s - before.cpu_s) * 1e3 / answers.sum())
    queue_wait = np.quantile(np.concatenate([record.queue_wait_ms for record in records]), (0.5, 0.99))
    round_trip = np.quantile(np.concatenate([record.round_trip_ms for record in records]), (0.5, 0.99))
    return Point(
        subject.policy,
        subject.scheduler,
        sessions=sessions,
        asked_per_s=sessions / demand.period_s,
        answered_per_s=float(answers.sum() / seconds),
        queue_wait_p50_ms=float(queue_wait[0]),
        queue_wait_p99_ms=float(queue_wait[1]),
        round_trip_p50_ms=float(round_trip[0]),
        round_trip_p99_ms=float(round_trip[1]),
        bare_p50_ms=float(np.median(pings)),
        inference_p50_ms=float(np.median(np.concatenate([record.inference_ms for record in records]))),
        cpu_ms=cpu_ms,
        beside_ms=cpu_ms - subject.work_ms,
        memory_mb=after.resident_bytes / 1e6,
        memory_growth_kb=float((after.resident_bytes - before.resident_bytes) / 1e3 / answers.sum()),
        fairness=jain_index(answers),
        lost=sum(record.lost for record in records),
        errors=sum(record.errors for record in records),
    )


def judge_formula(spec: PolicySpec, warm_up_s: float, points: Sequence[Point]) -> Formula:
    """Apply the formula to the inference time of the warm-up, and to that with the fewest sessions."""
    served_s = points[0].inference_p50_ms / 1e3
    rate_hz = points[0].asked_per_s / points[0].sessions

    def robots(inference_s: float) -> int:
        return capacity(inference_s, rate_hz, spec.chunk_size, 1.0 / spec.trained_fps, rtt_s=0.0)

    return Formula(points[0].policy, warm_up_s * 1e3, robots(warm_up_s), served_s * 1e3, robots(served_s))


def print_results(points: Sequence[Point]) -> None:
    title = f"{points[0].policy}, {points[0].scheduler} [ms]"
    columns = (
        *("sessions", "served\n/s", "of\nasked", "queue\nwait\np50", "p99", "round\ntrip\np50", "to\nbare"),
        *("CPU", "be-\nside", "MB", "growth\nKB", "fair-\nness", "lost"),
    )
    rows = [
        (
            str(point.sessions),
            f"{point.answered_per_s:.1f}",
            f"{point.answered_per_s / point.asked_per_s:.2f}",
            f"{point.queue_wait_p50_ms:.1f}",
            f"{point.queue_wait_p99_ms:.1f}",
            f"{point.round_trip_p50_ms:.1f}",
            f"{point.round_trip_p50_ms / point.bare_p50_ms:.1f}",
            f"{point.cpu_ms:.2f}",
            f"{point.beside_ms:.2f}",
            f"{point.memory_mb:.0f}",
            f"{point.memory_growth_kb:.1f}",
            f"{point.fairness:.4f}",
            str(point.lost + point.errors),
        )
        for point in points
    ]
    print_table(Table(title, columns, rows, columns))


def print_bend(console: Console, points: Sequence[Point], formula: Formula) -> None:
    kept_up = [point.sessions for point in points if point.answered_per_s >= KEPT_UP * point.asked_per_s]
    most = max(points, key=lambda point: point.answered_per_s)
    rate, fewest = most.answered_per_s, points[0].sessions
    kept = max(kept_up, default=0)
    console.print(
        f"{kept} sessions get {KEPT_UP:.0%} of what they ask. At most {rate:.0f} answers/s, "
        f"{rate * most.bare_p50_ms / 1e3:.2f} of the bare ping-pongs in a row.\n"
        f"The formula promises {formula.by_served} robots by the {formula.served_ms:.2f} ms that a request "
        f"takes with {fewest} sessions, {formula.by_warm_up} by the {formula.warm_up_ms:.2f} ms of the "
        "warm-up, whose images are as small as in training.",
        highlight=False,
    )


def benchmark(arguments: argparse.Namespace, console: Console, folder: Path) -> None:
    write_deployment(folder, CASE)
    points: list[Point] = []
    formulas: list[Formula] = []
    for policy in arguments.policies:
        for scheduler in SCHEDULERS:
            manifest = write_manifest(folder, policy, scheduler)
            spec, warm_up_s, work_s = time_warm_up(manifest)
            subject = Subject(policy, scheduler, 1e3 * work_s)
            demand = Demand(1.0 / arguments.rate, tuple(spec.image_shapes))
            curve: list[Point] = []
            with serving(folder, manifest) as server:
                for sessions in arguments.sessions:
                    with console.status(f"measuring: {policy}, {scheduler}, {sessions} sessions"):
                        curve.append(measure(subject, sessions, arguments.seconds, server, demand))
            formula = judge_formula(spec, warm_up_s, curve)
            print_results(curve)
            print_bend(console, curve, formula)
            points += curve
            formulas.append(formula)
    arguments.out.mkdir(parents=True, exist_ok=True)
    content = {"points": [asdict(point) for point in points], "formulas": [asdict(f) for f in formulas]}
    (arguments.out / "capacity.json").write_text(json.dumps(content, indent=1) + "\n")
    draw(content, arguments.picture or arguments.out / "capacity.png")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, nargs="+", default=SESSIONS)
    parser.add_argument(
        "--rate",
        type=float,
        default=RATE_HZ,
        help="requests of each robot per second, unless it waits (%(default)g)",
    )
    parser.add_argument("--policies", nargs="+", default=POLICIES, choices=POLICIES)
    parser.add_argument("--seconds", type=float, default=5.0, help="to measure per number of sessions")
    parser.add_argument("--out", type=Path, default=Path("runs/capacity"), help="folder of the results")
    parser.add_argument("--picture", type=Path, help="draw to this file instead of into the folder")
    parser.add_argument("--acceptance", action="store_true", help="check that 64 sessions are served alike")
    arguments = parser.parse_args()
    if missing := bringup.environment():  # malloc reads it when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **missing})
    console = Console()
    load = f"{os.cpu_count()} processors, load average before the run: {os.getloadavg()[0]:.1f}"
    console.print(METHOD, load, sep="\n", highlight=False)
    rclpy.init()
    try:
        with tempfile.TemporaryDirectory(prefix="capacity_") as name:
            if not arguments.acceptance:
                benchmark(arguments, console, Path(name))
            elif not accept(console, Path(name)):
                sys.exit(1)
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
