# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures the time from a robot's sensors to its chunk, beside a bare rclpy ping-pong of the same bytes.

Run `python benchmarks/request_cycle.py [--cycles 100] [--case JPEG]`. A server whose policy takes no time and
a robot's node run as real processes; this one plays the sensors and takes the times, a fourth is the echo.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import rclpy
from rclpy.serialization import serialize_message
from request_cycle_rig import HEIGHT, WIDTH, Case, Probe, Sensors, deployment
from rich.console import Console

from remote_inference.tools.deployment import bringup
from remote_inference.tools.tables import Table, print_table

PAUSES_S = {"back to back": 0.0, "paced": 0.02}  # between a chunk and the next set of sensors
QUALITY = 90
CASES = (
    Case(0),
    *(Case(cameras) for cameras in (1, 2, 3)),
    *(Case(cameras, QUALITY) for cameras in (1, 2, 3)),
)
WARM_UP = 20
ROUNDS = 4  # cycles and pings take turns this many times
MAX_LOST = 0.05  # fraction

COLUMNS = ("KB", "sensors to\nchunk p50", "p95", "request\ncycle p50", "bare\np50", "p95", "ratio\np50")
METHOD = f"""\
[italic]Sensors to chunk[/italic]: taken outside the robot, from publishing the joint state, right after the \
{WIDTH}x{HEIGHT} images and last of the observation, to receiving the chunk that answers it: the sensors' \
way to the robot, encoding, sending, decoding, a policy that takes no time, the answer.
[italic]Request cycle[/italic]: the robot's own measure, from stamping the request to merging the chunk; \
the policy takes no time, so all of it is overhead.
[italic]Bare[/italic]: two plain nodes, an Observation of the same bytes and an ActionChunk, prepared once.
[italic]Back to back[/italic]: the next sensors, or the next ping, follow at once. \
[italic]Paced[/italic]: {PAUSES_S["paced"] * 1e3:g} ms later, when the processors have gone to sleep, as on \
a robot."""


@dataclass
class Measurement:
    """One case at one pace [ms]."""

    case: Case
    pace: str
    observation_bytes: int
    sensors_to_chunk: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    request_cycle_p50: float = 0.0


def measure(case: Case, cycles: int) -> list[Measurement]:
    """Start the processes and measure the case at each pace."""
    with (
        tempfile.TemporaryDirectory(prefix="request_cycle_") as name,
        deployment(Path(name), case, Sensors) as (sensors, pinger),
    ):
        results = []
        for pace, pause_s in PAUSES_S.items():
            result = Measurement(case, pace, len(serialize_message(pinger.message)))
            repeat(sensors, WARM_UP, pause_s)
            for _ in range(ROUNDS):
                result.sensors_to_chunk += repeat(sensors, cycles // ROUNDS, pause_s)
                result.bare += repeat(pinger, cycles // ROUNDS, pause_s)
            result.request_cycle_p50 = sensors.request_cycle_p50_ms()
            results.append(result)
    return results


def repeat(probe: Probe, times: int, pause_s: float) -> list[float]:
    durations = []
    for _ in range(times):
        time.sleep(pause_s)
        durations.append(probe.measure())
    arrived = [duration for duration in durations if duration is not None]
    if len(arrived) < (1.0 - MAX_LOST) * times:
        raise SystemExit(f"{type(probe).__name__}: {times - len(arrived)} of {times} were not answered")
    return arrived


def print_results(pace: str, results: list[Measurement]) -> None:
    title = f"From the sensors to the chunk beside a bare ping-pong, {pace} [ms]"
    rows = []
    for result in results:
        p50, p95 = np.quantile(result.sensors_to_chunk, (0.5, 0.95))
        bare_p50, bare_p95 = np.quantile(result.bare, (0.5, 0.95))
        values = (p50, p95, result.request_cycle_p50, bare_p50, bare_p95, p50 / bare_p50)
        kilobytes = f"{result.observation_bytes / 1e3:.0f}"
        rows.append((result.case.name, kilobytes, *(f"{value:.2f}" for value in values)))
    print_table(Table(title, ("observation", *COLUMNS), rows, COLUMNS))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cycles", type=int, default=100, help="to measure per observation and pace")
    parser.add_argument("--case", default="", help="measure only observations whose name contains this")
    arguments = parser.parse_args()
    if missing := bringup.environment():  # malloc reads it when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **missing})
    console = Console()
    load = f"{os.cpu_count()} processors, load average before the run: {os.getloadavg()[0]:.1f}"
    rclpy.init()
    results: list[Measurement] = []
    for case in CASES:
        if arguments.case in case.name:
            with console.status(f"measuring: {case.name}"):
                results += measure(case, arguments.cycles)
    rclpy.try_shutdown()
    console.print(METHOD, load, sep="\n", highlight=False)
    for pace in PAUSES_S:
        print_results(pace, [result for result in results if result.pace == pace])


if __name__ == "__main__":
    main()
