# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures how evenly a robot's control thread ticks, beside a bare loop that runs at the same time.

Run `python benchmarks/control_jitter.py [--seconds 20] [--rates 30 100 200] [--scenarios idle network]`. The
robot's node and a server whose policy takes no time run as real processes; this one plays the sensors, and
where asked for, kills the server.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import rclpy
from control_jitter_rig import CAMERA_RATE_HZ, CASE, Rig, Server, remove
from fast_sensors import RATES_HZ as FAST_RATES_HZ, SOURCES
from numpy.typing import NDArray
from request_cycle_rig import ROBOT, ROBOT_PARAMETERS, SERVER, write_deployment
from rich.console import Console

from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.process_group import ProcessGroup
from remote_inference.tools.tables import Table, print_table

IDLE, FAST, NETWORK, KILLED = SCENARIOS = ("idle", "fast sensors", "network", "server killed")
RATES_HZ = (30.0, 100.0, 200.0)
KILL_PERIOD_S = 5.0
SETTLE_S = 3.0  # between the start and the window
QUANTILES = (0.5, 0.99, 0.999, 1.0)
NS_PER_MS = 1e6

METHOD = f"""\
[italic]Period error[/italic]: how far the time between two ticks in a row is from the period, by the stamps \
that the robot's control thread takes when it has published its command.
[italic]Bare[/italic]: the same of a Python process with nothing but such a loop, at the same time.
[italic]Idle[/italic]: no server, no sensors. [italic]Fast sensors[/italic]: joints at \
{CAMERA_RATE_HZ:g} Hz, an IMU at {FAST_RATES_HZ["imu"]:g} Hz and odometry at {FAST_RATES_HZ["odom"]:g} Hz in \
the state, no camera. [italic]Network[/italic]: {CASE.name} from raw images at {CAMERA_RATE_HZ:g} Hz, a \
request for each set. [italic]Server killed[/italic]: that, and the server, on this machine too, is killed \
and started again every {KILL_PERIOD_S:g} s.
[italic]Late[/italic]: ticks that the robot itself counted as late. [italic]Lost[/italic]: ticks whose \
stamps did not arrive; the periods beside them are left out."""


@dataclass(frozen=True)
class Measurement:
    """One scenario at one rate; period errors at QUANTILES [ms]."""

    scenario: str
    rate_hz: float
    robot: tuple[float, ...]
    bare: tuple[float, ...]
    ticks: int
    late_ticks: int
    lost_ticks: int
    requests_per_s: float


class FastSensors(bringup.Process):
    """Runs fast_sensors.py."""

    def command(self) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("fast_sensors.py"))]


@contextmanager
def bare_loop(rate_hz: float, stamps_ns: list[int]) -> Iterator[None]:
    """Run the reference loop during the block and append its stamps."""
    command = [sys.executable, str(Path(__file__).with_name("bare_loop.py")), str(rate_hz)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate()
    stamps_ns += json.loads(output)


def measure(scenario: str, rate_hz: float, seconds: float, left_behind: set[Path]) -> Measurement:
    """Start the processes and measure for the given time."""
    bare_ns: list[int] = []
    with (
        tempfile.TemporaryDirectory(prefix="control_jitter_") as name,
        ProcessGroup(Path(name, "logs")) as group,
        bare_loop(rate_hz, bare_ns),
    ):
        case, more_state = (replace(CASE, cameras=0), SOURCES) if scenario == FAST else (CASE, ())
        contract, manifest = write_deployment(Path(name), case, rate_hz, more_state)
        rig = Rig(case)
        parameters = {**ROBOT_PARAMETERS, "autostart": scenario != IDLE, "reconnect_max_backoff_s": 0.5}
        group.start(bringup.robot(contract, namespace=ROBOT, servers=[SERVER], parameters=parameters))
        try:
            server = None
            if scenario != IDLE:
                server = Server(group, manifest)
                rig.play_sensors()
                if scenario == FAST:
                    group.start(FastSensors("fast_sensors", "fast_sensors"))
                rig.wait_for(lambda: rig.state and rig.state.chunks_merged, "the first chunk")
            rig.wait_for(lambda: rig.state, "the robot's state")
            rig.spin(SETTLE_S)
            before, start_ns = rig.next_state(), time.time_ns()
            end_s = time.monotonic() + seconds
            while (left_s := end_s - time.monotonic()) > 0:
                if server and scenario == KILLED:
                    server.kill_and_start()
                rig.spin(min(left_s, KILL_PERIOD_S))
                group.check()
            after, end_ns = rig.next_state(), time.time_ns()
        finally:
            rig.close()
            if server:
                left_behind |= server.left_behind
    ticks, stamps_ns = in_window(list(rig.stamps_ns), list(rig.stamps_ns.values()), start_ns, end_ns)
    bare_ticks, bare_stamps_ns = in_window(list(range(len(bare_ns))), bare_ns, start_ns, end_ns)
    return Measurement(
        scenario,
        rate_hz,
        robot=period_error_quantiles_ms(ticks, stamps_ns, rate_hz),
        bare=period_error_quantiles_ms(bare_ticks, bare_stamps_ns, rate_hz),
        ticks=len(ticks),
        late_ticks=after.late_ticks - before.late_ticks,
        lost_ticks=int(np.sum(np.diff(ticks) - 1)),
        requests_per_s=(after.requests - before.requests) / (end_ns - start_ns) * 1e9,
    )


def in_window(
    ticks: list[int], stamps_ns: list[int], start_ns: int, end_ns: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    pairs = [(t, s) for t, s in sorted(zip(ticks, stamps_ns, strict=True)) if start_ns <= s <= end_ns]
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def period_error_quantiles_ms(
    ticks: NDArray[np.int64], stamps_ns: NDArray[np.int64], rate_hz: float
) -> tuple[float, ...]:
    """Return the quantiles of the absolute period error of consecutive ticks [ms]."""
    periods_ms = np.diff(stamps_ns)[np.diff(ticks) == 1] / NS_PER_MS
    return tuple(float(q) for q in np.quantile(np.abs(periods_ms - 1e3 / rate_hz), QUANTILES))


def print_results(results: list[Measurement]) -> None:
    """Print a row for the robot and one for the bare thread: side by side they are wider than a terminal."""
    numbers = ("Hz", "p50", "p99", "p99.9", "max", "p99.9\nto bare", "late", "lost", "requests\n/s")
    rows = []
    for result in results:
        counts = (str(result.late_ticks), str(result.lost_ticks), f"{result.requests_per_s:.1f}")
        ratio = f"{result.robot[2] / result.bare[2]:.2f}"
        about = (result.scenario, f"{result.rate_hz:g}")
        rows.append((*about, "robot", *(f"{value:.2f}" for value in result.robot), ratio, *counts))
        rows.append((*about, "bare", *(f"{value:.2f}" for value in result.bare), "", "", "", ""))
    columns = ("scenario", "Hz", "side", *numbers[1:])
    print_table(Table("Period error [ms]", columns, rows, numbers))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="to measure per scenario and rate")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES_HZ, help="of the control loop [Hz]")
    parser.add_argument("--scenarios", nargs="+", default=SCENARIOS, choices=SCENARIOS)
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    arguments = parser.parse_args()
    if missing := bringup.environment():  # malloc reads it when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **missing})
    console = Console()
    load = f"{os.cpu_count()} processors, load average before the run: {os.getloadavg()[0]:.1f}"
    rclpy.init()
    results: list[Measurement] = []
    left_behind: set[Path] = set()
    try:
        for scenario in arguments.scenarios:
            for rate_hz in arguments.rates:
                with console.status(f"measuring: {scenario}, {rate_hz:g} Hz"):
                    results.append(measure(scenario, rate_hz, arguments.seconds, left_behind))
    finally:
        rclpy.try_shutdown()
        remove(left_behind)
    console.print(METHOD, load, sep="\n", highlight=False)
    print_results(results)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
